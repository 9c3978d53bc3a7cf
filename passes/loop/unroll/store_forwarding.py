"""Handing what copies of a loop body store into registers to the copies that load it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.support.quick_ir import new_op

Properties = dict[str, Attribute]


class Piece(NamedTuple):
    """Elements of a buffer that follow each other."""

    start: int
    length: int


@dataclass
class _Contents:
    """What is known of a buffer: pieces of one length, each at a multiple of it."""

    length: int
    values: dict[int, SSAValue] = field(default_factory=dict[int, SSAValue])
    """What a piece holds, by its start."""
    waiting: dict[int, tuple[loop.StoreOp, Properties]] = field(
        default_factory=dict[int, tuple[loop.StoreOp, Properties]]
    )
    """The last store to a piece, not written yet: the next copy may store there, too."""


class StoreForwarding:
    """The contents of buffers in registers, as long as control flow is straight.

    Of the copies of a sum, the first loads it and the last stores it:

        %a = loop.load %r[0] : memref<4xf32>
        %b = arith.addf %a, %x : f32
        loop.store %b, %r[0] : memref<4xf32>
        %c = loop.load %r[0] : memref<4xf32>
        %d = arith.addf %c, %y : f32
        loop.store %d, %r[0] : memref<4xf32>
        ->
        %a = loop.load %r[0] : memref<4xf32>
        %b = arith.addf %a, %x : f32
        %d = arith.addf %b, %y : f32
        loop.store %d, %r[0] : memref<4xf32>
    """

    def __init__(self) -> None:
        self._contents: dict[SSAValue, _Contents] = {}

    def load(self, buffer: SSAValue, piece: Piece, result: list[Operation]) -> SSAValue | None:
        """The value that a piece of a buffer holds, if it is known.

        If not, what a load could see is written to `result`.
        """
        return self._at(buffer, piece, result).values.get(piece.start)

    def loaded(self, buffer: SSAValue, piece: Piece, value: SSAValue) -> None:
        """Remember what a piece holds that `load` did not know."""
        self._contents[buffer].values[piece.start] = value

    def store(
        self,
        op: loop.StoreOp,
        properties: Properties,
        value: SSAValue,
        buffer: SSAValue,
        piece: Piece,
        result: list[Operation],
    ) -> None:
        """Store a value, sooner or later.

        Args:
            op: the original store.
            properties: those of its copy.
        """
        contents = self._at(buffer, piece, result)
        if contents.values.get(piece.start) is value:
            return
        contents.values[piece.start] = value
        contents.waiting[piece.start] = (op, properties)

    def write(self, buffer: SSAValue, result: list[Operation]) -> None:
        """Write what waits to be stored to a buffer, of which nothing is known from here on."""
        contents = self._contents.pop(buffer, None)
        if contents is None:
            return
        for start, (op, properties) in contents.waiting.items():
            operands = (contents.values[start], buffer)
            result.append(new_op(loop.StoreOp, operands, (), properties, op.attributes))

    def write_all(self, result: list[Operation]) -> None:
        """Write what waits to be stored: control flow is straight no longer."""
        for buffer in tuple(self._contents):
            self.write(buffer, result)

    def _at(self, buffer: SSAValue, piece: Piece, result: list[Operation]) -> _Contents:
        """What is known of a buffer, in pieces as long as this one."""
        contents = self._contents.get(buffer)
        if contents is None or contents.length != piece.length:
            self.write(buffer, result)
            contents = self._contents[buffer] = _Contents(piece.length)
        return contents


def is_private(buffer: SSAValue) -> bool:
    """Whether a buffer is in registers, and nothing but loads and stores can see it."""
    owner = buffer.owner
    return (
        isinstance(owner, loop.AllocOp)
        and owner.scope.data.in_registers
        and all(
            isinstance(use.operation, loop.LoadOp)
            or (isinstance(use.operation, loop.StoreOp) and use.operation.memref is buffer)
            for use in buffer.uses
        )
    )


def piece_length(op: loop.LoadOp | loop.StoreOp) -> int | None:
    """How many elements an access touches; None if these are not neighbours in a row."""
    if op.lanes is None:
        return 1
    (steps, *more) = op.lane_steps
    if more or steps[-1] != 1 or any(steps[:-1]):
        return None
    value_type = op.value.type if isinstance(op, loop.StoreOp) else op.results[0].type
    assert isa(value_type, VectorType)
    return value_type.get_shape()[0]


def piece_at(indices: Sequence[AffineExpr], shape: Sequence[int], length: int) -> Piece | None:
    """The piece at an index of a buffer; None if the index moves, or the piece is not whole."""
    start = last = 0
    for expr, extent in zip(indices, shape, strict=True):
        if not isinstance(expr, AffineConstantExpr) or not 0 <= expr.value < extent:
            return None
        last = expr.value
        start = start * extent + last
    if (shape and last + length > shape[-1]) or start % length:
        return None
    return Piece(start, length)
