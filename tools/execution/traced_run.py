"""Execution of a module in which every value can be compared with its value before a pass.

Each function that @main calls is run by the executor of its level. Its results and the values of
its stages or blocks are stored by function, call and stage. If the results of a call are close to
those of the last run, the results of the first run are returned instead. Every function then sees
the same inputs after each pass, errors are reported where they arise, and unchanged functions need
not run again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import func
from xdsl.dialects.builtin import IndexType, ModuleOp, TensorType
from xdsl.ir import Attribute, Operation

from tcopt.dialects import loop, te
from tcopt.dialects.accelerator import ProgramOp
from tcopt.dialects.float_precision import precision_of, rounds
from tcopt.dialects.graph.core.weights import weights_of
from tcopt.interpreters.host_calls import host_call, module_strings, run_host_call
from tcopt.support.data.closeness import Tolerance, difference
from tcopt.support.data.strings import StringTable, strings_in
from tcopt.support.errors import MismatchError, TcoptError, UnsupportedError
from tcopt.tools.execution.accelerator_runs import run_program
from tcopt.tools.execution.call_turns import CallTurns, TurnsOfRun
from tcopt.tools.execution.culprits import (
    ORDERS,
    EmitterFault,
    FailedCall,
    interpret,
    is_interpretable,
)
from tcopt.tools.execution.entry_arguments import entry_arguments
from tcopt.tools.execution.executors import WEIGHTS, functions, level_of, signature
from tcopt.tools.execution.fingerprints import Digests
from tcopt.tools.execution.host_program import HostProgram, is_host_program
from tcopt.tools.execution.memory_roles import memory_roles
from tcopt.tools.execution.native_process import NativeFault
from tcopt.tools.execution.prepared_code import PreparedCode
from tcopt.tools.execution.ptx_runs import emitter_of
from tcopt.tools.execution.run_values import (
    BufferCall,
    Interface,
    Key,
    Run,
    Value,
    ValueChanged,
    as_shape,
    join_masks,
    mask_as,
)
from tcopt.tools.execution.stage_runs import Call, Output, place_of, run_kernel, run_plain, run_te
from tcopt.tools.execution.work_estimates import work_of

Array = NDArray[Any]

REPEATED_WORK = 200_000_000
"""Number of executed ops up to which all calls of a function run after each pass. Beyond it,
further calls of the function reuse the values of the last run.
"""


@dataclass
class Tracer:
    """Runs modules, one after each pass.

    Attributes:
        tolerance: for a function's results, before its own precision is known.
        digests: of arrays, shared by all tracers.
        limit: time limit of a call in seconds; None if derived from its work.
        only: functions to run again after a pass, all if it is empty. For others, the results of
            their first run are used.
        last: the last run.
        seen: names of all functions of the modules that were run.
        failed: the call that ended the last run.
    """

    tolerance: Tolerance
    digests: Digests
    limit: float | None = None
    only: frozenset[str] = frozenset()
    last: Run = field(default_factory=Run)
    seen: set[str] = field(default_factory=set[str])
    failed: FailedCall | None = None
    _first: dict[Key, Array] = field(default_factory=dict[Key, Array])
    _interfaces: dict[str, Interface] = field(default_factory=dict[str, "Interface"])
    _seconds: dict[str, float] = field(default_factory=dict[str, float])
    _turns: CallTurns = field(default_factory=CallTurns)
    _strings: StringTable | None = None
    _known: dict[Any, Call] = field(default_factory=dict[Any, Call])
    _used: dict[Any, Call] = field(default_factory=dict[Any, Call])

    def run(
        self,
        module: ModuleOp,
        feeds: Mapping[str, Sequence[Array]],
        code: PreparedCode,
        sizes: Mapping[str, int] | None = None,
    ) -> Run:
        """Run the functions that have feeds.

        Args:
            code: of the module's functions.
            sizes: numbers of the sizes that are arguments of kernel-level functions, by name.
        Raises:
            ValueChanged: results of a function differ from the last run.
            UnsupportedError: there is no executor for an op of the module.
        """
        turns = self._turns.start(module)
        current = _Current(self, module, code, functions(module), Run(), turns, sizes or {})
        self.seen |= set(current.functions)
        self.failed = None
        self._used = {}
        self.digests.use_weights((weights_of(module) or {}).values())
        with strings_in(self._strings or module_strings(module)) as table:
            # A string keeps its table index across all runs.
            self._strings = table
            for name, arrays in feeds.items():
                current.run.results[name] = current.named_entry(name, arrays)
        self._known = self._used
        return current.run

    def fork(self) -> Tracer:
        """Return a copy of the tracer that shares no mutable state."""
        other = copy(self)
        other._first, other._interfaces = dict(self._first), dict(self._interfaces)
        other._seconds, other._known = dict(self._seconds), dict(self._known)
        other._turns, other.seen = self._turns.fork(), set(self.seen)
        return other

    def accept(self, run: Run) -> None:
        """Accept a run as the reference for the next one."""
        self.last = run
        for key, value in run.values.items():
            self._first.setdefault(key, value.array)


@dataclass
class _Current:
    """State of one run of a module."""

    tracer: Tracer
    module: ModuleOp
    code: PreparedCode
    functions: dict[str, Operation]
    run: Run
    turns: TurnsOfRun
    sizes: Mapping[str, int]
    prints: dict[str, tuple[int, Tolerance]] = field(
        default_factory=dict[str, tuple[int, Tolerance]]
    )
    work: dict[str, int] = field(default_factory=dict[str, int])
    """The number of ops executed in calls of each function."""

    def named_entry(self, name: str, feeds: Sequence[Array]) -> list[Array]:
        """Return the results of an entry function, which may have become a host function."""
        if name in self.functions:
            function = self.functions[name]
            return self.entry(function, name, self.reshaped(function, feeds))
        if (declared := host_call(self.module, name)) is None:
            raise UnsupportedError(f"function @{name} no longer exists")
        arrays = [np.array(feed, copy=True) for feed in feeds]
        run_host_call(declared, arrays)
        return arrays

    def reshaped(self, entry: Operation, feeds: Sequence[Array]) -> list[Array]:
        """Reshape feeds to a function's arguments, whose axes a pass may have merged or split."""
        found = list(feeds)
        for number, spec in enumerate(signature(entry).arguments[: len(feeds)]):
            shape = tuple(size for size in spec.shape or () if isinstance(size, int))
            if (array := as_shape(feeds[number], shape)) is not None:
                found[number] = array
        return found

    def entry(self, entry: Operation, name: str, feeds: Sequence[Array]) -> list[Array]:
        """Return the results of an entry function."""
        if isinstance(entry, te.FuncOp):
            return self.call_te(entry, feeds)
        if isinstance(entry, func.FuncOp) and _has_tensors(entry):
            return self.values(entry, feeds)
        known = self.tracer.last.results.get(name, ())
        arrays, results = entry_arguments(self.module, entry, feeds, self.sizes, known)
        if is_host_program(entry):
            HostProgram(self.module, self.call).run(cast(func.FuncOp, entry), arrays)
            return results
        returned = self.call_native(entry, arrays)
        return results if WEIGHTS in entry.attributes else results + returned

    def values(self, entry: func.FuncOp, feeds: Sequence[Array]) -> list[Array]:
        """Return the results of a function on tensors: a graph, or calls of tensor expressions."""
        from tcopt.interpreters import graph
        from tcopt.interpreters import te as expressions

        if level_of(self.module) == "te":
            return expressions.run_module(
                self.module, feeds, observe=self.locate_call, run_function=self.call_te
            )
        if level_of(self.module) == "graph":
            return graph.run_function(
                entry, feeds, weights=weights_of(self.module), observe=self.run.located.add
            )
        raise UnsupportedError("a function on tensors at this level does not run", op=entry)

    def locate_call(self, op: Operation, results: Sequence[Array]) -> None:
        """Record the results of calls only, as views between them may have the same location."""
        if isinstance(op, te.CallOp):
            self.run.located.add(op, results)

    # Function calls.

    def facts(self, function: Operation, name: str) -> tuple[int, Tolerance]:
        """Return the fingerprint of a function, and the tolerance for its results."""
        if name not in self.prints:
            base = self.tracer.tolerance
            tolerance = replace(base, precision=precision_of(function), rounds=rounds(function))
            mark = self.code.fingerprints.whole(function, self.functions)
            self.prints[name] = mark, tolerance
        return self.prints[name]

    def call_te(self, function: te.FuncOp, arrays: Sequence[Array]) -> list[Array]:
        """Return the results of a te function."""
        name = function.sym_name.data
        count = len(function.body.block.args)
        results = len(function.outputs)
        self.tracer._interfaces[name] = Interface(count + results, range(count, count + results))
        mark, tolerance = self.facts(function, name)
        inputs = self.tracer.digests.of([np.asarray(each) for each in arrays])
        turn = self.turns.of(name, inputs)
        if (known := self.known_results(name, turn)) is not None:
            return [result for result, _ in known]
        key = (mark, inputs)
        call = self.tracer._known.get(key) or run_te(function, arrays)
        self.tracer._used[key] = call
        return self.judge(function, name, turn, call, tolerance)

    def known_results(self, name: str, turn: int) -> list[tuple[Array, Array | None]] | None:
        """Return the results of a call that need not run again; None if it must run."""
        only = self.tracer.only
        return None if not only or name in only else self.last_results(name, turn)

    def last_results(self, name: str, turn: int) -> list[tuple[Array, Array | None]] | None:
        """Return the results of a call in the last run, with masks of written elements; None if it
        is new.
        """
        last = self.tracer.last.values
        if Key(name, turn, "result 0") not in last:
            return None
        keys = [key for key in last if key.function == name and key.turn == turn]
        self.run.values.update((key, last[key]) for key in keys)
        results = [key for key in keys if key.part.startswith("result")]
        return [(self.tracer._first[key], last[key].mask) for key in results]

    def is_repeated(self, task: BufferCall) -> bool:
        """Whether the work of earlier calls of a function in this run exceeds the limit for a new
        one.
        """
        if task.key in self.tracer._known or task.name not in self.work:
            return False
        work = work_of(task.function, self.functions)
        return work is not None and self.work[task.name] + work > REPEATED_WORK

    def call(self, op: Operation, name: str, arrays: list[Array]) -> None:
        """Run a function called by @main on buffers."""
        declared = host_call(self.module, name)
        if declared is not None:
            run_host_call(declared, arrays)
            return
        function = self.functions.get(name)
        if function is None:
            raise UnsupportedError(f"there is no function @{name} with a body", op=op)
        self.call_native(function, arrays)

    def call_native(self, function: Operation, arrays: list[Array]) -> list[Array]:
        """Run a loop-level or kernel-level function, or an accelerator program, on buffers.

        Returns:
            Scalar results, if it has any.
        """
        name = function.properties["sym_name"].data  # pyright: ignore
        interface = self.interface(function, name, len(arrays))
        types = function.regions[0].block.arg_types if function.regions else ()
        added = [p for p in range(interface.count, len(arrays)) if not _is_index(types, p)]
        written = (*interface.results, *added)
        read = set(range(len(arrays))).difference(written).union(interface.updated)
        digests = self.tracer.digests
        turn = self.turns.of(name, digests.of([arrays[position] for position in sorted(read)]))
        key = (self.facts(function, name)[0], digests.of(arrays))
        task = BufferCall(function, name, turn, arrays, written, interface, key)
        known = self.known_results(name, turn)
        if known is None and self.is_repeated(task):
            known = self.last_results(name, turn)
        if known is not None:
            for position, (result, mask) in zip(interface.results, known, strict=False):
                shape = arrays[position].shape
                where = True if mask is None else mask.reshape(shape)
                np.copyto(arrays[position], result.reshape(shape), where=where)
            return [result for result, _ in known[len(interface.results) :]]
        try:
            call, results = self.judged(task)
            self.check_first(task, call)
        except EmitterFault:
            raise
        except (ValueChanged, NativeFault, MismatchError) as error:
            if self.is_right_as_text(task):
                emitter = emitter_of(self.module, function)
                raise EmitterFault(error.message, where=error.where, emitter=emitter) from None
            self.tracer.failed = FailedCall(
                name, lambda other: self.agrees(replace(task, function=other))
            )
            raise
        for position, output, result in zip(call.positions, call.outputs, results, strict=False):
            if output.mask is None:
                np.copyto(arrays[position], result)
            else:
                np.copyto(arrays[position], result, where=output.mask)
        return results[len(call.positions) :]

    def judged(self, task: BufferCall) -> tuple[Call, list[Array]]:
        """Run a function, unless its results are known, and compare them."""
        tolerance = self.facts(task.function, task.name)[1]
        work = work_of(task.function, self.functions) or 0
        self.work[task.name] = self.work.get(task.name, 0) + work
        call = self.tracer._known.get(task.key)
        if call is None:
            call = self.execute(task, tolerance)
            seconds = self.tracer._seconds.get(task.name, 0.0)
            self.tracer._seconds[task.name] = max(call.seconds, seconds)
        self.tracer._used[task.key] = call
        return call, self.judge(task.function, task.name, task.turn, call, tolerance)

    def execute(self, task: BufferCall, tolerance: Tolerance) -> Call:
        """Run a function by the executor of its level."""
        function, arrays, written = task.function, task.arrays, task.written
        before, limit = self.tracer._seconds.get(task.name), self.tracer.limit
        if isinstance(function, ProgramOp):
            call = run_program(function, arrays, written)
        elif isinstance(function, loop.FuncOp):
            shapes = self.stage_shapes(task.name, task.turn)
            call = run_plain(function, arrays, written, before, shapes, limit, self.code)
        else:
            refilled = [each for each in written if each not in task.interface.updated]
            call = run_kernel(
                self.module,
                function,
                arrays,
                written,
                refilled,
                before,
                tolerance,
                self.code,
                limit,
            )
        return call.only(task.interface.results)

    def agrees(self, task: BufferCall) -> bool:
        """Whether a function computes the results of the last run."""
        tolerance = self.facts(self.functions[task.name], task.name)[1]
        try:
            call = self.execute(task, tolerance)
            self.judge(task.function, task.name, task.turn, call, tolerance)
        except (MismatchError, NativeFault):
            return False
        return True

    def is_right_as_text(self, task: BufferCall) -> bool:
        """Whether a kernel whose machine code is wrong is correct when it is interpreted; False if
        that is unknown.
        """
        call = self.as_text(task)
        if call is None:
            return False
        tolerance = self.facts(task.function, task.name)[1]
        try:
            self.judge(task.function, task.name, task.turn, call, tolerance)
        except TcoptError:
            return False
        return True

    def check_first(self, task: BufferCall, call: Call) -> None:
        """Compare machine code without an earlier run to the interpretation of its IR.

        Raises:
            EmitterFault: they differ.
        """
        if Key(task.name, task.turn, "result 0") in self.tracer.last.values:
            return
        expected = self.as_text(task)
        if expected is not None and (text := self.disagreement(task, call, expected)) is not None:
            emitter = emitter_of(self.module, task.function)
            raise EmitterFault(text, where=place_of(task.function), emitter=emitter)

    def as_text(self, task: BufferCall) -> Call | None:
        """Interpret a call of a kernel; None if that takes too long, is unsupported, or depends on
        the order of parallel iterations.
        """
        function, work = task.function, work_of(task.function, self.functions)
        is_kernel = isinstance(function, func.FuncOp)
        if not is_kernel or work is None or not is_interpretable(function, work):
            return None
        try:
            first, *others = (
                interpret(function, task.arrays, task.written, order).only(task.interface.results)
                for order in ORDERS
            )
        except TcoptError:
            return None
        return None if any(self.disagreement(task, each, first) for each in others) else first

    def disagreement(self, task: BufferCall, call: Call, expected: Call) -> str | None:
        """Describe the first result in which two calls of a function differ; None if all agree."""
        tolerance = self.facts(task.function, task.name)[1]
        for number, (one, other) in enumerate(zip(call.outputs, expected.outputs, strict=True)):
            mask = join_masks(one.mask, other.mask, either=True)
            text = difference(one.array, other.array, tolerance, mask)
            if text is not None:
                return f"{Key(task.name, task.turn, f'result {number}')}: {text}"
        return None

    def stage_shapes(self, name: str, turn: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of a function's stages in the last run."""
        return {
            key.part[len("stage ") :].strip('"'): value.array.shape
            for key, value in self.tracer.last.values.items()
            if key.function == name and key.turn == turn and key.part.startswith("stage")
        }

    def interface(self, function: Operation, name: str, count: int) -> Interface:
        """Return how a function uses its arguments, as determined when it was first seen.

        Arguments that were added since then are workspace.
        """
        known = self.tracer._interfaces.get(name)
        if known is None or known.count > count:
            known = self._interface_of(function, count)
            self.tracer._interfaces[name] = known
        return known

    def _interface_of(self, function: Operation, count: int) -> Interface:
        if isinstance(function, ProgramOp):
            return Interface(count, function.stored)
        roles = memory_roles(function, self.functions)
        written = [number for number, role in enumerate(roles) if role.is_written]
        return Interface(count, written, [number for number in written if roles[number].is_read])

    def judge(
        self, function: Operation, name: str, turn: int, call: Call, tolerance: Tolerance
    ) -> list[Array]:
        """Compare the results of a function with the last run; return the results to continue with.

        Raises:
            ValueChanged: a result differs.
        """
        for stage in call.stages:
            self.compare(Key(name, turn, f'stage "{stage.name}"'), stage, tolerance)
        results: list[Array] = []
        for number, output in enumerate(call.outputs):
            key = Key(name, turn, f"result {number}")
            self.compare(key, output, tolerance)
            first = self.tracer._first.get(key)
            same = first is not None and first.shape == output.array.shape
            results.append(first if first is not None and same else output.array)
        return results

    def compare(self, key: Key, output: Output, tolerance: Tolerance) -> None:
        of_tensor = isinstance(self.functions[key.function], te.FuncOp)
        value = Value(output.array, output.mask, output.where, of_tensor)
        self.run.values[key] = value
        old = self.tracer.last.values.get(key)
        if old is None or old.array is value.array:
            return
        if old.of_tensor and not of_tensor and not output.in_order:
            return
        expected = as_shape(old.array, value.array.shape)
        if expected is None:
            return
        is_stage = key.part.startswith("stage")
        mask = join_masks(mask_as(old, value.array.shape), value.mask, either=not is_stage)
        text = difference(value.array, expected, tolerance, mask)
        if text is not None:
            raise ValueChanged(f"{key}: {text}", where=output.where)


def _is_index(types: Sequence[Attribute], position: int) -> bool:
    """Whether an argument is a size."""
    return position < len(types) and isinstance(types[position], IndexType)


def _has_tensors(entry: func.FuncOp) -> bool:
    """Whether a function takes or returns tensors, unlike kernel-level functions."""
    types = entry.function_type
    return any(isinstance(each, TensorType) for each in (*types.inputs, *types.outputs))
