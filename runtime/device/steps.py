"""The host function of a program for a device, as the list of what it does.

Everything is known when a model is compiled: loops over time are unrolled, and each view is a
place in one of a few buffers. A run goes through the list and evaluates nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnrealizedConversionCastOp
from xdsl.ir import Block, Operation, SSAValue

from tcopt.dialects import loop
from tcopt.passes.kernel.memory_sizes import memref_bytes
from tcopt.passes.kernel.thread_axes import BLOCK_SIZE, GRID_SIZE, sizes_of
from tcopt.support.errors import PassFailedError

Sizes = tuple[int, int, int]


@dataclass(frozen=True)
class Place:
    """Bytes in a buffer.

    Attributes:
        buffer: the number of the argument of @main.
        offset: bytes in front of it.
    """

    buffer: int
    offset: int = 0


@dataclass(frozen=True)
class Launch:
    """A kernel on a grid of blocks of threads."""

    kernel: str
    grid: Sizes
    block: Sizes
    arguments: tuple[Place, ...]


@dataclass(frozen=True)
class Copy:
    """Some bytes to another place."""

    source: Place
    target: Place
    size: int


Step = Launch | Copy


def steps_of(main: func.FuncOp, module: ModuleOp) -> list[Step]:
    """What a host function does, in order.

    Raises:
        PassFailedError: it holds an op that no device can be told.
    """
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
    host = _Host(functions)
    host.places = {value: Place(number) for number, value in enumerate(main.body.block.args)}
    host.run(main.body.block)
    return host.steps


class _Host:
    """The evaluation of a host function."""

    def __init__(self, functions: Mapping[str, func.FuncOp]):
        self.functions = functions
        self.places: dict[SSAValue, Place] = {}
        self.numbers: dict[SSAValue, int] = {}
        self.steps: list[Step] = []
        self._rules: dict[type[Operation], Callable[[Any], None]] = {
            arith.ConstantOp: self._constant,
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

    def _view(self, op: memref.ViewOp) -> None:
        self._move(op.source, op.result, self.numbers[op.byte_shift])

    def _slice(self, op: loop.SliceOp) -> None:
        self._move(op.source, op.result, self.numbers[op.index] * memref_bytes(op.result.type))

    def _same_place(self, op: Operation) -> None:
        self._move(op.operands[0], op.results[0], 0)

    def _move(self, source: SSAValue, result: SSAValue, bytes: int) -> None:
        place = self.places[source]
        self.places[result] = Place(place.buffer, place.offset + bytes)

    def _copy(self, op: memref.CopyOp) -> None:
        source, target = self.places[op.source], self.places[op.destination]
        self.steps.append(Copy(source, target, memref_bytes(op.source.type)))

    def _call(self, op: func.CallOp) -> None:
        kernel = self.functions[op.callee.string_value()]
        grid, block = sizes_of(kernel, GRID_SIZE), sizes_of(kernel, BLOCK_SIZE)
        arguments = tuple(self.places[value] for value in op.arguments)
        self.steps.append(Launch(kernel.sym_name.data, grid, block, arguments))

    def _for(self, op: scf.ForOp) -> None:
        lower, upper, step = (self.numbers[value] for value in (op.lb, op.ub, op.step))
        for number in range(lower, upper, step):
            self.numbers[op.body.block.args[0]] = number
            self.run(op.body.block)
