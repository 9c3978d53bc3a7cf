"""Forwarding of values stored to registers between copies of an unrolled loop body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.support.ir.quick_ir import new_op

Properties = dict[str, Attribute]


class Piece(NamedTuple):
    """A range of contiguous elements of a buffer."""

    start: int
    length: int


@dataclass
class _Contents:
    """Known contents of a buffer, as pieces of equal length, each at a multiple of it."""

    length: int
    values: dict[int, SSAValue] = field(default_factory=dict[int, SSAValue])
    """The value of each piece, by its start."""
    waiting: dict[int, tuple[loop.StoreOp, Properties]] = field(
        default_factory=dict[int, tuple[loop.StoreOp, Properties]]
    )
    """The last, deferred store to each piece: the next copy may overwrite it."""


class StoreForwarding:
    """Tracks the contents of register buffers along straight-line code.

    Of the unrolled copies of an accumulation, only the first loads the sum and the last stores it:

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
        """Return the value of a piece of a buffer, or None if it is unknown.

        If it is unknown, deferred stores that the load may read are appended to `result`.
        """
        return self._at(buffer, piece, result).values.get(piece.start)

    def loaded(self, buffer: SSAValue, piece: Piece, value: SSAValue) -> None:
        """Record the value of a piece that `load` did not know."""
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
        """Record a store, whose emission is deferred.

        Args:
            op: the original store.
            properties: properties of its copy.
        """
        contents = self._at(buffer, piece, result)
        if contents.values.get(piece.start) is value:
            return
        contents.values[piece.start] = value
        contents.waiting[piece.start] = (op, properties)

    def write(self, buffer: SSAValue, result: list[Operation]) -> None:
        """Emit the deferred stores to a buffer, and forget its contents."""
        contents = self._contents.pop(buffer, None)
        if contents is None:
            return
        for start, (op, properties) in contents.waiting.items():
            operands = (contents.values[start], buffer)
            result.append(new_op(loop.StoreOp, operands, (), properties, op.attributes))

    def write_all(self, result: list[Operation]) -> None:
        """Emit all deferred stores, at the end of straight-line code."""
        for buffer in tuple(self._contents):
            self.write(buffer, result)

    def _at(self, buffer: SSAValue, piece: Piece, result: list[Operation]) -> _Contents:
        """Return the contents of a buffer in pieces of the same length as this one."""
        contents = self._contents.get(buffer)
        if contents is None or contents.length != piece.length:
            self.write(buffer, result)
            contents = self._contents[buffer] = _Contents(piece.length)
        return contents


def is_private(buffer: SSAValue) -> bool:
    """Whether a buffer is in registers, and has no uses other than loads and stores."""
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
    """Return the number of elements of an access; None if they are not contiguous in a row."""
    if op.lanes is None:
        return 1
    (steps, *more) = op.lane_steps
    if more or steps[-1] != 1 or any(steps[:-1]):
        return None
    value_type = op.value.type if isinstance(op, loop.StoreOp) else op.results[0].type
    assert isa(value_type, VectorType)
    return value_type.get_shape()[0]


def piece_at(indices: Sequence[AffineExpr], shape: Sequence[int], length: int) -> Piece | None:
    """Return the piece at an index of a buffer; None if the index is not constant, or unaligned."""
    start = last = 0
    for expr, extent in zip(indices, shape, strict=True):
        if not isinstance(expr, AffineConstantExpr) or not 0 <= expr.value < extent:
            return None
        last = expr.value
        start = start * extent + last
    if (shape and last + length > shape[-1]) or start % length:
        return None
    return Piece(start, length)
