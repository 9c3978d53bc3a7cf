"""Execution of one function call at its level: its results, and the values of stages or blocks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Operation
from xdsl.utils.hints import isa

from tcopt.backends.llvm.emit.types import llvm_type
from tcopt.dialects import loop, te
from tcopt.interpreters.plain_loop import PlainFunction
from tcopt.interpreters.te import run_stages
from tcopt.support.data.closeness import Tolerance, difference
from tcopt.support.errors import MismatchError
from tcopt.support.locations import describe_location, nearest_location
from tcopt.tools.execution.executors import functions
from tcopt.tools.execution.loop_executor import PlainCode, fault_of, stage_arrays
from tcopt.tools.execution.native_process import (
    CANARY,
    Argument,
    Handle,
    NativeFault,
    ProcessBuffer,
    ProcessScalar,
    Scratch,
    native_process,
)
from tcopt.tools.execution.prepared_code import PreparedCode, Shapes, kernel_symbol
from tcopt.tools.execution.ptx_runs import launch_ptx, runs_as_ptx
from tcopt.tools.execution.work_estimates import MACHINE_CODE, PLAIN, PTX, time_limit, work_of

Array = NDArray[Any]

_WORK_WORTH_EFFORT = 50_000_000
_OTHER_FILL = 0x55


@dataclass(frozen=True)
class Output:
    """An array computed by a function.

    Attributes:
        mask: the elements that it wrote, None for all.
        in_order: for a block's values, whether the axes are in the order of the stage's tensor.
    """

    name: str
    array: Array
    mask: Array | None
    where: str | None
    in_order: bool = True


@dataclass(frozen=True)
class Call:
    """The results of one call.

    Attributes:
        positions: of the first outputs among the arguments; the others are returned.
        seconds: how long it ran.
    """

    outputs: tuple[Output, ...]
    positions: tuple[int, ...] = ()
    stages: tuple[Output, ...] = ()
    seconds: float = 0.0

    def only(self, positions: Sequence[int]) -> Call:
        """Return the call with only the outputs at `positions`; the others are workspace."""
        kept = [number for number, place in enumerate(self.positions) if place in positions]
        returned = self.outputs[len(self.positions) :]
        return replace(
            self,
            outputs=(*(self.outputs[number] for number in kept), *returned),
            positions=tuple(self.positions[number] for number in kept),
        )


def run_te(function: te.FuncOp, arrays: Sequence[Array]) -> Call:
    """Run a te function in numpy."""
    values = run_stages(function, arrays)
    stages = tuple(
        Output(stage.stage.data, np.asarray(values[stage.result]), None, place_of(stage))
        for stage in function.stages
    )
    where = place_of(function)
    results = [Output("", np.array(values[each]), None, where) for each in function.outputs]
    return Call(tuple(results), stages=stages)


def run_plain(
    function: loop.FuncOp,
    arrays: Sequence[Array],
    written: Sequence[int],
    before: float | None = None,
    shapes: Shapes | None = None,
    limit: float | None = None,
    code: PreparedCode | None = None,
) -> Call:
    """Run a loop function by its plain translation. It runs in this process if it has third-party
    ops, whose meanings are Python functions.

    Args:
        code: cached code of its module's functions.
        shapes: of its stages, if known.
        written: the arguments that it may write to.
        before: seconds that it took the last time.
        limit: time limit in seconds, by default derived from its work.
    Raises:
        NativeFault: it accesses memory out of bounds, races or does not end.
    """
    if code is None:
        with PreparedCode() as code:
            return run_plain(function, arrays, written, before, shapes, limit, code)
    plain = code.plain(function, shapes or {})
    buffers, started = private_copies(arrays), time.perf_counter()
    try:
        if plain.meanings:
            stages = PlainCode(plain)(buffers)
        else:
            named = [
                ProcessBuffer(array, number in written, _name(function, number))
                for number, array in enumerate(buffers)
            ]
            stages = _in_child(function, plain, named, code, before, limit)
    except NativeFault as error:
        raise _in_function(error, function) from None
    seconds = time.perf_counter() - started
    kept = [
        Output(stage.name, array, _told(array), place_of(stage.op), stage.in_order)
        for array, stage in zip(stages, plain.stages, strict=True)
    ]
    return Call(*written_outputs(function, arrays, buffers, written), tuple(kept), seconds)


def _in_child(
    function: loop.FuncOp,
    plain: PlainFunction,
    buffers: Sequence[ProcessBuffer],
    code: PreparedCode,
    before: float | None,
    limit: float | None,
) -> list[Array]:
    """Run a plain translation in the child process; return the values of its stages."""
    work = work_of(function, {})
    effort = 1 if (work or 0) > _WORK_WORTH_EFFORT else 0
    stages, detail = stage_arrays(plain), np.zeros(1, np.int64)
    arguments: list[Argument] = [
        *buffers,
        *(
            ProcessBuffer(array, True, f'the values of "{stage.name}"')
            for array, stage in zip(stages, plain.stages, strict=True)
        ),
        Scratch(plain.scratch_bytes),
        ProcessBuffer(detail, True, "the detail"),
    ]
    handle, limit = code.plain_code(plain, effort), time_limit(work, PLAIN, before, limit)
    status = native_process().call(handle, "plain", arguments, result="i64", limit=limit)
    if status:
        raise fault_of(plain, status, int(detail[0]))
    return stages


def run_kernel(
    module: ModuleOp,
    function: Operation,
    arrays: Sequence[Array],
    written: Sequence[int],
    refilled: Sequence[int],
    before: float | None,
    tolerance: Tolerance,
    code: PreparedCode,
    limit: float | None = None,
) -> Call:
    """Run a kernel-level function as machine code or PTX, twice.

    In the first run, parallel iterations run one at a time in another order, and buffers end at an
    inaccessible page. In the second run, they run on threads, buffers start after an inaccessible
    page, and buffers in `refilled` have different initial contents. Both must agree. The threads
    of PTX run in the same order in both.

    Raises:
        NativeFault: it accesses memory out of bounds, crashes or does not end.
        MismatchError: the two runs differ.
    """
    assert isinstance(function, func.FuncOp)
    name = function.sym_name.data
    is_ptx = runs_as_ptx(module, function)
    rate = PTX if is_ptx else MACHINE_CODE
    limit = time_limit(work_of(function, functions(module)), rate, before, limit)
    seconds, runs, returned = 0.0, list[list[Array]](), list[Array]()
    overlaps = _overlap(arrays)
    for again in range(1 if overlaps else 2):
        buffers = private_copies(arrays)
        if again:
            for position in refilled:
                buffers[position].reshape(-1).view(np.uint8)[...] = _OTHER_FILL
        started = time.perf_counter()
        try:
            if is_ptx:
                named = [
                    ProcessBuffer(array, number in written, _name(function, number))
                    for number, array in enumerate(buffers)
                ]
                result = launch_ptx(module, function, code, named, limit)
            else:
                handle = code.kernel(module, function, shuffled=not again)
                last = again > 0
                result = call_kernel(function, handle, buffers, written, again=last, limit=limit)
        except NativeFault as error:
            raise _in_function(error, function) from None
        seconds = max(seconds, time.perf_counter() - started)
        runs.append(buffers)
        returned += [] if result is None else [np.asarray(result)]
    outputs, positions = written_outputs(function, arrays, runs[0], written)
    outputs += tuple(Output("the result", each, None, place_of(function)) for each in returned[:1])
    if len(runs) > 1:
        values = [*(runs[1][position] for position in positions), *returned[1:]]
        for output, value in zip(outputs, values, strict=True):
            wrong = difference(value, output.array, tolerance, output.mask)
            if wrong is not None:
                raise MismatchError(
                    f"{output.name} of @{name} depends on the order of parallel iterations, or on "
                    f"memory that was not written: {wrong}",
                    where=output.where,
                )
    return Call(outputs, positions, (), seconds)


def call_kernel(
    function: func.FuncOp,
    handle: Handle,
    buffers: Sequence[Array],
    written: Sequence[int],
    *,
    again: bool,
    limit: float,
) -> Any:
    """Call a function; return its scalar result, if it has one."""
    arguments: list[Argument] = []
    for number, (array, type_) in enumerate(
        zip(buffers, function.function_type.inputs, strict=True)
    ):
        if isa(type_, MemRefType):
            arguments.append(ProcessBuffer(array, number in written, _name(function, number)))
        else:
            arguments.append(ProcessScalar(llvm_type(type_), array.item()))
    outputs = function.function_type.outputs.data
    result = llvm_type(outputs[0]) if outputs else ""
    symbol, process = kernel_symbol(function), native_process()
    value = process.call(handle, symbol, arguments, result=result, at_end=not again, limit=limit)
    return value if outputs else None


def private_copies(arrays: Sequence[Array]) -> list[Array]:
    """Copy arrays; arrays that overlap are not copied."""
    if _overlap(arrays):
        return [np.ascontiguousarray(array) for array in arrays]
    return [np.array(array, order="C", copy=True) for array in arrays]


def _overlap(arrays: Sequence[Array]) -> bool:
    spans = sorted((a.ctypes.data, a.ctypes.data + a.nbytes) for a in arrays if a.nbytes)
    return any(low < end for (_, end), (low, _) in pairwise(spans))


def written_outputs(
    function: Operation, before: Sequence[Array], after: Sequence[Array], written: Sequence[int]
) -> tuple[tuple[Output, ...], tuple[int, ...]]:
    """Return the written buffers, with masks of the elements that changed."""
    outputs: list[Output] = []
    where = place_of(function)
    for position in written:
        old, new = before[position], after[position]
        size = new.dtype.itemsize
        changed = (
            old.reshape(-1).view(np.uint8).reshape(-1, size)
            != new.reshape(-1).view(np.uint8).reshape(-1, size)
        ).any(axis=1)
        mask = None if changed.all() else changed.reshape(new.shape)
        outputs.append(Output(_name(function, position), new, mask, where))
    return tuple(outputs), tuple(written)


def _told(array: Array) -> Array | None:
    """Return a mask of the elements of a stage that were computed."""
    size = array.dtype.itemsize
    told = (array.reshape(-1).view(np.uint8).reshape(-1, size) != CANARY).any(axis=1)
    return None if told.all() else told.reshape(array.shape)


def _name(function: Operation, number: int) -> str:
    hint = function.regions[0].blocks[0].args[number].name_hint
    return f"%{hint}" if hint else f"argument {number}"


def _in_function(error: NativeFault, function: Operation) -> NativeFault:
    name = function.properties["sym_name"].data  # pyright: ignore
    return NativeFault(f"in @{name}: {error.message}", where=place_of(function), hint=error.hint)


def place_of(op: Operation) -> str | None:
    """Return the location of an op, as shown in messages."""
    return describe_location(nearest_location(op))
