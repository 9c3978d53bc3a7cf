"""Results of a model's kernels, observed without changing how the model is compiled.

@main is interpreted op by op. Each kernel is the machine code of the compiled model, called in a
separate process with its buffers between guard pages. The arrays that a kernel writes are matched
with the results of ONNX nodes. A result that is never in memory, because its node was folded or
fused with a user, is not observed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.core.attributes import extents_in
from tcopt.dialects.graph.core.donation import count_in
from tcopt.dialects.graph.core.types import shape_of
from tcopt.dialects.graph.movement.pad import PadOp
from tcopt.dialects.origins import ORIGIN, origin_in
from tcopt.interpreters.host_calls import host_call, module_strings, run_host_call
from tcopt.passes.te.lower_graph_to_te import GroupUnit, origin_of, unit_of
from tcopt.support.data.strings import strings_in
from tcopt.support.errors import TcoptError, UnsupportedError
from tcopt.support.ir.origins import Origin
from tcopt.tools.execution.entry_arguments import entry_arguments
from tcopt.tools.execution.executors import WEIGHTS, functions, output_names
from tcopt.tools.execution.host_program import HostProgram
from tcopt.tools.execution.memory_roles import memory_roles
from tcopt.tools.execution.prepared_code import PreparedCode
from tcopt.tools.execution.run_values import as_shape
from tcopt.tools.execution.stage_runs import call_kernel
from tcopt.tools.execution.work_estimates import MACHINE_CODE, time_limit, work_of

Array = NDArray[Any]
Part = tuple[slice, ...]


@dataclass(frozen=True)
class Written:
    """An array that a kernel wrote.

    Attributes:
        array: in the layout that the compiler chose.
        inside: the part without borders that the compiler added.
    """

    array: Array
    inside: Part


@dataclass(frozen=True)
class KernelRun:
    """A call of a kernel: the ONNX nodes it computes, and the arrays it wrote."""

    nodes: tuple[str, ...]
    written: tuple[Written, ...]


@dataclass
class Borders:
    """The parts of kernels' results without borders, by the origin of the kernel."""

    _inside: dict[Origin, list[Part]] = field(default_factory=dict[Origin, list[Part]])

    @classmethod
    def of(cls, module: ModuleOp) -> Borders:
        """Collect the borders of a graph before it is lowered."""
        found = cls()
        for function in functions(module).values():
            for op in function.regions[0].blocks[0].ops:
                if (unit := unit_of(op)) is not None:
                    found._inside[origin_of(unit)] = [_inside(each, unit) for each in unit.results]
        return found

    def inside(self, origin: Origin, number: int) -> Part:
        """Return the part of a result without its border."""
        known = self._inside.get(origin, [])
        return known[number] if number < len(known) else ()


def _inside(value: SSAValue, unit: GroupUnit) -> Part:
    """Return the part of a value without the border added around it."""
    pad = value.owner
    if not isinstance(pad, PadOp) or pad not in unit.body:
        return ()
    shape = shape_of(pad.x)
    lows = extents_in(pad.low)
    return tuple(slice(max(n, 0), max(n, 0) + size) for n, size in zip(lows, shape, strict=True))


def run_observed(
    module: ModuleOp, borders: Borders, feeds: Sequence[Array], *, limit: float | None = None
) -> tuple[list[Array], list[KernelRun]]:
    """Return the results of a planned @main, and the runs of its kernels.

    Args:
        limit: time limit of a kernel in seconds, by default derived from its work.
    Raises:
        NativeFault: a kernel crashed, accessed memory out of bounds or did not end.
        UnsupportedError: the module is not for a CPU.
    """
    main = functions(module).get("main")
    if not isinstance(main, func.FuncOp) or WEIGHTS not in main.attributes:
        raise UnsupportedError("only the kernels of a CPU can be observed")
    with PreparedCode() as code, strings_in(module_strings(module)):

        def run(sizes: Mapping[str, int]) -> tuple[list[Array], list[KernelRun]]:
            arrays, results = entry_arguments(module, main, feeds, sizes)
            run = _Run(module, borders, code, limit)
            HostProgram(module, run.call).run(main, arrays)
            return results, run.kernels

        results, kernels = run({})
        # The sizes that the program defines are the shapes of results in another run.
        if sizes := _defined_sizes(module, results):
            results, kernels = run(sizes)
    return results, kernels


def own_outputs(module: ModuleOp) -> list[str]:
    """Return the names of the model's outputs, without values of sizes and checks after them."""
    names = output_names(module)
    added = count_in(module, "graph.sizes") + count_in(module, "graph.checks")
    return names[: len(names) - added]


def _defined_sizes(module: ModuleOp, results: Sequence[Array]) -> dict[str, int]:
    """Return the values of the sizes that outputs have and the program defines."""
    first, names = len(own_outputs(module)), output_names(module)
    end = first + count_in(module, "graph.sizes")
    return {
        name: value.item() for name, value in zip(names[first:end], results[first:end], strict=True)
    }


@dataclass
class _Run:
    module: ModuleOp
    borders: Borders
    code: PreparedCode
    limit: float | None
    kernels: list[KernelRun] = field(default_factory=list[KernelRun])

    def __post_init__(self) -> None:
        self.functions = functions(self.module)

    def call(self, op: Operation, name: str, arrays: list[Array]) -> None:
        if (declared := host_call(self.module, name)) is not None:
            run_host_call(declared, arrays)
            return
        function = self.functions.get(name)
        if not isinstance(function, func.FuncOp):
            raise UnsupportedError(f"there is no function @{name} with a body", op=op)
        roles = memory_roles(function, self.functions)
        written = [number for number, role in enumerate(roles) if role.is_written]
        limit = time_limit(work_of(function, self.functions), MACHINE_CODE, None, self.limit)
        handle = self.code.kernel(self.module, function, shuffled=False)
        origin = origin_in(cast(DictionaryAttr, op.attributes.get(ORIGIN, DictionaryAttr({}))))
        try:
            call_kernel(function, handle, arrays, written, again=True, limit=limit)
        except TcoptError as error:
            nodes = ", ".join(f"'{node}'" for node in origin.nodes)
            raise type(error)(
                f"the kernel of {nodes or 'a copy'}: {error.message}",
                where=error.where,
                hint=error.hint,
            ) from None
        self.kernels.append(KernelRun(origin.nodes, tuple(self.written(origin, arrays, written))))

    def written(
        self, origin: Origin, arrays: Sequence[Array], positions: Sequence[int]
    ) -> Iterator[Written]:
        """Yield copies of a kernel's outputs, in the shapes of the graph, without its workspace."""
        for number, (text, position) in enumerate(zip(origin.results, positions, strict=False)):
            sizes = text.split("x")[:-1]
            array = arrays[position]
            # An array with sizes has the shape of the kernel's argument.
            if all(size.isdecimal() for size in sizes):
                array = as_shape(array, tuple(map(int, sizes)))
            if array is not None:
                yield Written(np.array(array), self.borders.inside(origin, number))


def in_layout_of(written: Written, expected: Array) -> Array | None:
    """Return a written array in the layout of an ONNX value; None if it cannot be that value."""
    array = written.array
    for part in (array, array[written.inside]):
        found = _plain(part, expected.shape)
        if found is not None and found.dtype == expected.dtype:
            return found
        is_signless = found is not None and found.dtype.kind in "iu" and expected.dtype.kind in "iu"
        if found is not None and is_signless and found.itemsize == expected.itemsize:
            return found.view(expected.dtype)
    return None


def _plain(array: Array, shape: tuple[int, ...]) -> Array | None:
    """Convert an array with blocked channels or merged axes to the shape of an ONNX value."""
    if array.shape == shape:
        return array
    if array.ndim == len(shape) + 1 and array.ndim > 2 and array.shape[2:-1] == shape[2:]:
        channels = array.shape[1] * array.shape[-1]
        if array.shape[0] == shape[0] and channels - array.shape[-1] < shape[1] <= channels:
            moved = np.moveaxis(array, -1, 2)
            plain = moved.reshape(shape[0], channels, *shape[2:])
            return np.ascontiguousarray(plain[:, : shape[1]])
    return as_shape(array, shape)


def match_values(
    kernels: Sequence[KernelRun],
    produced: Mapping[str, Sequence[str]],
    users: Mapping[str, Sequence[str]],
    expected: Mapping[str, Array],
) -> dict[str, Array]:
    """Return the arrays that kernels wrote, by the names of the ONNX values that they hold.

    Candidates for a kernel's array are values of nodes for which this is the last kernel, if they
    are used by nodes of other kernels. Of several candidates, the closest one is chosen.

    Args:
        produced: the results of each node.
        users: the nodes that use each value, and "" for an output of the model.
        expected: the values of another runtime.
    """
    last = {node: number for number, run in enumerate(kernels) for node in run.nodes}
    found: dict[str, Array] = {}
    for number, run in enumerate(kernels):
        own = [node for node in run.nodes if last[node] == number]
        values = [
            value
            for node in own
            for value in produced.get(node, ())
            if any(user not in run.nodes for user in users.get(value, ()))
        ]
        for written in run.written:
            fitting = {
                value: array
                for value in values
                if value not in found
                and value in expected
                and (array := in_layout_of(written, expected[value])) is not None
            }
            if fitting:
                nearest = min(fitting, key=lambda v: _distance(fitting[v], expected[v]))
                found[nearest] = fitting[nearest]
    return found


def _distance(a: Array, b: Array) -> float:
    """Return the largest difference of two arrays; 0 if they are not numeric."""
    if a.dtype.kind not in "fiub" or not a.size:
        return 0.0
    with np.errstate(all="ignore"):
        return float(np.nan_to_num(np.abs(a.astype(np.float64) - b.astype(np.float64))).max())
