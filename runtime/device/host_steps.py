"""Conversion of a device program's host function to a list of launches and copies.

The host function is evaluated at compile time: loops over time are unrolled, and each view becomes
an offset in a buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    IntegerAttr,
    MemRefType,
    ModuleOp,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.memory_sizes import memref_bytes
from tcopt.passes.kernel.lowering.thread_axes import BLOCK_SIZE, GRID_SIZE, KERNEL, sizes_of
from tcopt.runtime.device.steps import BufferOffset, Copy, KernelLaunch, Launch, Step
from tcopt.runtime.profile import TimedKernel
from tcopt.support.errors import PassFailedError
from tcopt.support.ir.origins import call_origin

_ONCE = (1, 1, 1)
"""Grid and block of a function without a thread mapping."""

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
    host.places = {value: BufferOffset(number) for number, value in enumerate(main.body.block.args)}
    host.run(main.body.block)
    return HostSteps(host.steps, host.calls, host.entries)


def launches_of(caller: func.FuncOp, module: ModuleOp) -> tuple[list[KernelLaunch], list[SSAValue]]:
    """Return the launches of a function that only calls kernels of its module.

    Returns:
        The launches, and the buffers that the function allocates. The arguments of a launch are
        positions in the list of the function's arguments followed by these buffers.
    """
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
    buffers: list[SSAValue] = [
        op.memref for op in caller.body.block.ops if isinstance(op, memref.AllocOp)
    ]
    positions = {v: number for number, v in enumerate((*caller.body.block.args, *buffers))}
    launches: list[KernelLaunch] = []
    for call in caller.body.block.ops:
        if isinstance(call, func.CallOp):
            kernel = functions[call.callee.string_value()]
            grid, block = _ONCE, _ONCE
            if KERNEL in kernel.attributes:
                grid, block = sizes_of(kernel, GRID_SIZE), sizes_of(kernel, BLOCK_SIZE)
            places = tuple(positions[value] for value in call.arguments)
            launches.append(KernelLaunch(kernel.sym_name.data, grid, block, places))
    return launches, buffers


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
        size = sum(memref_bytes(b.type) for b in buffers if isa(b.type, MemRefType))
        name = call.callee.string_value()
        threads = prod(launch.grid) * prod(launch.block)
        found.append(TimedKernel(name, origin, size, parallel=True, threads=threads))
    return found


class _Host:
    """Compile-time evaluation of a host function."""

    def __init__(self, launches: Mapping[str, Sequence[KernelLaunch]]):
        self.launches = launches
        self.calls: list[tuple[func.CallOp, KernelLaunch]] = []
        self.entries: list[int | None] = []
        self._numbers: dict[func.CallOp, int] = {}
        self.places: dict[SSAValue, BufferOffset] = {}
        self.numbers: dict[SSAValue, int] = {}
        self.steps: list[Step] = []
        self._rules: dict[type[Operation], Callable[[Any], None]] = {
            arith.ConstantOp: self._constant,
            arith.RemUIOp: self._remainder,
            arith.SubiOp: self._subtract,
            func.CallOp: self._call,
            func.ReturnOp: lambda _: None,
            loop.SliceOp: self._slice,
            memref.CopyOp: self._copy,
            memref.ReinterpretCastOp: self._same_place,
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

    def _subtract(self, op: arith.SubiOp) -> None:
        self.numbers[op.result] = self.numbers[op.lhs] - self.numbers[op.rhs]

    def _remainder(self, op: arith.RemUIOp) -> None:
        self.numbers[op.result] = self.numbers[op.lhs] % self.numbers[op.rhs]

    def _view(self, op: memref.ViewOp) -> None:
        self._move(op.source, op.result, self.numbers[op.byte_shift])

    def _slice(self, op: loop.SliceOp) -> None:
        self._move(op.source, op.result, self.numbers[op.index] * memref_bytes(op.result.type))

    def _same_place(self, op: Operation) -> None:
        self._move(op.operands[0], op.results[0], 0)

    def _move(self, source: SSAValue, result: SSAValue, bytes: int) -> None:
        place = self.places[source]
        self.places[result] = BufferOffset(place.buffer, place.offset + bytes)

    def _copy(self, op: memref.CopyOp) -> None:
        source, target = self.places[op.source], self.places[op.destination]
        self._add(Copy(source, target, memref_bytes(op.source.type)), None)

    def _call(self, op: func.CallOp) -> None:
        launches = self.launches[op.callee.string_value()]
        if op not in self._numbers:
            self._numbers[op] = len(self.calls)
            self.calls += [(op, launch) for launch in launches]
        places = [self.places[value] for value in op.arguments]
        for number, launch in enumerate(launches, self._numbers[op]):
            arguments = tuple(places[position] for position in launch.arguments)
            step = Launch(launch.kernel, launch.grid, launch.block, arguments, _nodes(op))
            self._add(step, number)

    def _add(self, step: Step, entry: int | None) -> None:
        self.steps.append(step)
        self.entries.append(entry)

    def _for(self, op: scf.ForOp) -> None:
        lower, upper, step = (self.numbers[value] for value in (op.lb, op.ub, op.step))
        for number in range(lower, upper, step):
            self.numbers[op.body.block.args[0]] = number
            self.run(op.body.block)


def _nodes(call: func.CallOp) -> str:
    """Return the names of a call's ONNX nodes, for messages."""
    names = call_origin(call).nodes
    more = f" and {len(names) - _MOST_NODES} more" if len(names) > _MOST_NODES else ""
    return ", ".join(names[:_MOST_NODES]) + more
