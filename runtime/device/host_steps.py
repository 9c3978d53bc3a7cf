"""Conversion of a device program's host function to a list of launches and copies.

The host function is evaluated at compile time: loops over time are unrolled, and each view becomes
an offset in a buffer. Numbers that depend on sizes become formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.gpu_kernels import BLOCK_SIZE, GRID_SIZE, KERNEL, SIZED_GRID, sizes_of
from tcopt.dialects.memory_sizes import element_bytes, memref_bytes
from tcopt.dialects.origins import call_origin
from tcopt.dialects.size import (
    BYTES,
    DimsAttr,
    buffer_types,
    extents_of,
    function_symbols,
    size_of,
    sized,
)
from tcopt.runtime.device.steps import BufferOffset, Copy, Grid, KernelLaunch, Launch, Step
from tcopt.runtime.profile import TimedKernel
from tcopt.support.arithmetic.sizes import (
    Extent,
    is_fixed,
    maximum,
    minimum,
    product,
    substitute,
    upper_bound,
)
from tcopt.support.errors import PassFailedError

_ONCE = (1, 1, 1)
"""Grid and block of a function without a thread mapping."""

_ARITHMETIC: dict[type[Operation], Callable[[Extent, Extent], Extent]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.DivUIOp: lambda a, b: a // b,
    arith.FloorDivSIOp: lambda a, b: a // b,
    arith.MaxSIOp: maximum,
    arith.MinSIOp: minimum,
    arith.MuliOp: lambda a, b: a * b,
    arith.RemUIOp: lambda a, b: a % b,
    arith.SubiOp: lambda a, b: a - b,
}
"""Operations of a host function on indices."""

_MOST_NODES = 4
"""Maximum number of node names in the description of a launch."""


@dataclass(frozen=True)
class HostSteps:
    """Steps of a host function.

    Attributes:
        steps: launches and copies, in order.
        calls: each launch with the call that it is part of; a launch in a loop is listed once.
        entries: for each step its index in `calls`; None for a copy.
    """

    steps: list[Step]
    calls: list[tuple[func.CallOp, KernelLaunch]]
    entries: list[int | None]


def steps_of(main: func.FuncOp, launches: Mapping[str, Sequence[KernelLaunch]]) -> HostSteps:
    """Return the steps of a host function.

    Args:
        launches: the launches of each called function, by its name.
    Raises:
        PassFailedError: an op of the function has no equivalent on a device.
    """
    host = _Host(launches)
    buffers, sizes = _arguments(main)
    host.places = {value: BufferOffset(number) for number, value in enumerate(buffers)}
    host.numbers.update(sizes)
    tensors = zip(buffers, buffer_types(main), strict=False)
    host.extents = {value: extents_of(type_) for value, type_ in tensors if sized(type_)}
    host.run(main.body.block)
    return HostSteps(host.steps, host.calls, host.entries)


def launches_of(caller: func.FuncOp, module: ModuleOp) -> tuple[list[KernelLaunch], list[SSAValue]]:
    """Return the launches of a function that only calls kernels of its module.

    Returns:
        The launches, and the buffers that the function allocates. The arguments of a launch are
        positions in the list of the function's arguments followed by these buffers.
    """
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
    allocated: list[SSAValue] = [
        op.memref for op in caller.body.block.ops if isinstance(op, memref.AllocOp)
    ]
    host = _Host({name: [_whole(kernel)] for name, kernel in functions.items()})
    buffers, sizes = _arguments(caller)
    # A call of the function has its workspace before the sizes.
    arguments = [*buffers, *allocated]
    host.places = {value: BufferOffset(number) for number, value in enumerate(arguments)}
    host.numbers.update(sizes)
    host.run(caller.body.block)
    symbols = tuple(function_symbols(caller))
    launches: list[KernelLaunch] = []
    for step in host.steps:
        if not isinstance(step, Launch) or any(place.offset != 0 for place in step.arguments):
            raise PassFailedError("a kernel uses a part of a buffer", op=caller)
        positions = tuple(place.buffer for place in step.arguments)
        launches.append(
            KernelLaunch(step.kernel, step.grid, step.block, positions, step.sizes, symbols)
        )
    return launches, allocated


def _arguments(host: func.FuncOp) -> tuple[list[SSAValue], dict[SSAValue, Extent]]:
    """Return the buffers of a host function, and its sizes with the extents that they have."""
    arguments = host.body.block.args
    indices = [value for value in arguments if isinstance(value.type, IndexType)]
    sizes = map(size_of, function_symbols(host))
    return (
        [value for value in arguments if not isinstance(value.type, IndexType)],
        dict(zip(indices, sizes, strict=True)),
    )


def _whole(kernel: func.FuncOp) -> KernelLaunch:
    """Return the launch of a kernel with its own arguments."""
    grid: Grid = _ONCE
    block = _ONCE
    if KERNEL in kernel.attributes:
        grid, block = sizes_of(kernel, GRID_SIZE), sizes_of(kernel, BLOCK_SIZE)
    sized = kernel.attributes.get(SIZED_GRID)
    if isinstance(sized, DimsAttr):
        x, y, z = sized.extents
        grid = x, y, z
    symbols = tuple(function_symbols(kernel))
    count = len(kernel.function_type.inputs) - len(symbols)
    sizes = tuple(map(size_of, symbols))
    return KernelLaunch(kernel.sym_name.data, grid, block, tuple(range(count)), sizes, symbols)


def timed_launches(host: HostSteps) -> list[TimedKernel]:
    """Describe each launch for a profile.

    If a call makes several launches, their work is 0, because it is known for the call only.
    """
    launches = [call for call, _ in host.calls]
    found: list[TimedKernel] = []
    for call, launch in host.calls:
        origin = call_origin(call)
        if launches.count(call) > 1:
            origin = replace(origin, work=0)
        buffers = [call.arguments[position] for position in launch.arguments]
        size = call.attributes.get(BYTES)
        if isinstance(size, DimsAttr):
            (moved,) = size.extents
        else:
            moved = sum(memref_bytes(b.type) for b in buffers if isa(b.type, MemRefType))
        name = call.callee.string_value()
        threads = prod(map(upper_bound, launch.grid)) * prod(launch.block)
        found.append(TimedKernel(name, origin, moved, parallel=True, threads=threads))
    return found


class _Host:
    """Compile-time evaluation of a host function."""

    def __init__(self, launches: Mapping[str, Sequence[KernelLaunch]]):
        self.launches = launches
        self.calls: list[tuple[func.CallOp, KernelLaunch]] = []
        self.entries: list[int | None] = []
        self._numbers: dict[func.CallOp, int] = {}
        self.places: dict[SSAValue, BufferOffset] = {}
        self.numbers: dict[SSAValue, Extent] = {}
        self.extents: dict[SSAValue, tuple[Extent, ...]] = {}
        self.steps: list[Step] = []
        self._rules: dict[type[Operation], Callable[[Any], None]] = {
            arith.ConstantOp: self._constant,
            **dict.fromkeys(_ARITHMETIC, self._compute),
            func.CallOp: self._call,
            func.ReturnOp: lambda _: None,
            loop.SliceOp: self._slice,
            memref.AllocOp: lambda _: None,
            memref.CopyOp: self._copy,
            memref.ReinterpretCastOp: self._reinterpret,
            memref.ViewOp: self._view,
            scf.ForOp: self._for,
            scf.YieldOp: lambda _: None,
            UnrealizedConversionCastOp: self._same_place,
        }

    def run(self, block: Block) -> None:
        for op in block.ops:
            rule = self._rules.get(type(op))
            if rule is None:
                raise PassFailedError("a host function for a device cannot hold this", op=op)
            rule(op)

    def _constant(self, op: arith.ConstantOp) -> None:
        if isinstance(op.value, IntegerAttr):
            self.numbers[op.result] = op.value.value.data

    def _compute(self, op: Operation) -> None:
        left, right = (self.numbers[operand] for operand in op.operands)
        self.numbers[op.results[0]] = _ARITHMETIC[type(op)](left, right)

    def _view(self, op: memref.ViewOp) -> None:
        self._move(op.source, op.result, self.numbers[op.byte_shift])

    def _slice(self, op: loop.SliceOp) -> None:
        self.extents[op.result] = self._extents(op.source)[1:]
        self._move(op.source, op.result, self.numbers[op.index] * self._bytes(op.result))

    def _reinterpret(self, op: memref.ReinterpretCastOp) -> None:
        sizes = iter(op.sizes)
        self.extents[op.result] = tuple(
            self.numbers[next(sizes)] if extent == DYNAMIC_INDEX else extent
            for extent in op.static_sizes.get_values()
        )
        self._same_place(op)

    def _extents(self, buffer: SSAValue) -> tuple[Extent, ...]:
        assert isa(buffer.type, MemRefType)
        return self.extents.get(buffer, buffer.type.get_shape())

    def _bytes(self, buffer: SSAValue) -> Extent:
        """Return the number of bytes of a buffer's elements."""
        assert isa(buffer.type, MemRefType)
        return product(self._extents(buffer)) * element_bytes(buffer.type.element_type)

    def _same_place(self, op: Operation) -> None:
        if op.operands[0] in self.extents and isinstance(op, UnrealizedConversionCastOp):
            self.extents.setdefault(op.results[0], self.extents[op.operands[0]])
        self._move(op.operands[0], op.results[0], 0)

    def _move(self, source: SSAValue, result: SSAValue, bytes: Extent) -> None:
        place = self.places[source]
        self.places[result] = BufferOffset(place.buffer, place.offset + bytes)

    def _copy(self, op: memref.CopyOp) -> None:
        source, target = self.places[op.source], self.places[op.destination]
        self._add(Copy(source, target, self._bytes(op.source)), None)

    def _call(self, op: func.CallOp) -> None:
        launches = self.launches[op.callee.string_value()]
        if op not in self._numbers:
            self._numbers[op] = len(self.calls)
            self.calls += [(op, launch) for launch in launches]
        places = [self.places[value] for value in op.arguments if value in self.places]
        given = [self.numbers[value] for value in op.arguments if value not in self.places]
        for number, launch in enumerate(launches, self._numbers[op]):
            arguments = tuple(places[position] for position in launch.arguments)
            own = {symbol.name: n for symbol, n in zip(launch.symbols, given, strict=True)}
            x, y, z = (substitute(extent, own) for extent in launch.grid)
            sizes = tuple(substitute(extent, own) for extent in launch.sizes)
            step = Launch(launch.kernel, (x, y, z), launch.block, arguments, _nodes(op), sizes)
            self._add(step, number)

    def _add(self, step: Step, entry: int | None) -> None:
        self.steps.append(step)
        self.entries.append(entry)

    def _for(self, op: scf.ForOp) -> None:
        lower, upper, step = (self.numbers[value] for value in (op.lb, op.ub, op.step))
        if not is_fixed((lower, upper, step)):
            raise PassFailedError(
                "the number of steps of a loop over time depends on a size", op=op
            )
        for number in range(lower, upper, step):
            self.numbers[op.body.block.args[0]] = number
            self.run(op.body.block)


def _nodes(call: func.CallOp) -> str:
    """Return the names of a call's ONNX nodes, for messages."""
    names = call_origin(call).nodes
    more = f" and {len(names) - _MOST_NODES} more" if len(names) > _MOST_NODES else ""
    return ", ".join(names[:_MOST_NODES]) + more
