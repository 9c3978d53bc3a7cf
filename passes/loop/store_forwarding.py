"""Handing what copies of a loop body store into registers to the copies that load it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from xdsl.dialects.builtin import AffineMapAttr, DenseArrayBase, MemRefType, VectorType, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr
from xdsl.utils.hints import isa

from tcopt.dialects import loop


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
    waiting: dict[int, tuple[loop.StoreOp, AffineMapAttr]] = field(
        default_factory=dict[int, tuple[loop.StoreOp, AffineMapAttr]]
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
        self._private: dict[SSAValue, bool] = {}
        self._pieces: dict[tuple[int, int], Piece | None] = {}

    def is_private(self, buffer: SSAValue) -> bool:
        """Whether a buffer is in registers, and nothing but loads and stores can see it."""
        found = self._private.get(buffer)
        if found is None:
            found = self._private[buffer] = _is_private(buffer)
        return found

    def piece(self, op: loop.LoadOp | loop.StoreOp, map: AffineMapAttr) -> Piece | None:
        """What a copy of an access touches; None if that is not a piece that is known.

        Args:
            map: the map of the copy, which has to live as long as this.
        """
        key = (id(op), id(map))
        if key not in self._pieces:
            type_ = op.value.type if isinstance(op, loop.StoreOp) else op.results[0].type
            self._pieces[key] = _piece_of(op, map, type_)
        return self._pieces[key]

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
        map: AffineMapAttr,
        value: SSAValue,
        buffer: SSAValue,
        piece: Piece,
        result: list[Operation],
    ) -> None:
        """Store a value, sooner or later."""
        contents = self._at(buffer, piece, result)
        if contents.values.get(piece.start) is value:
            return
        contents.values[piece.start] = value
        contents.waiting[piece.start] = (op, map)

    def write(self, buffer: SSAValue, result: list[Operation]) -> None:
        """Write what waits to be stored to a buffer, of which nothing is known from here on."""
        contents = self._contents.pop(buffer, None)
        if contents is None:
            return
        for start, (op, map) in contents.waiting.items():
            new = loop.StoreOp.create(
                operands=(contents.values[start], buffer),
                properties={**op.properties, "map": map, "operandSegmentSizes": _no_indices()},
                attributes=op.attributes,
            )
            result.append(new)

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


def _is_private(buffer: SSAValue) -> bool:
    owner = buffer.owner
    return (
        isinstance(owner, loop.AllocOp)
        and owner.scope.data is loop.Scope.REGISTER
        and all(
            isinstance(use.operation, loop.LoadOp)
            or (isinstance(use.operation, loop.StoreOp) and use.operation.memref is buffer)
            for use in buffer.uses
        )
    )


def _piece_of(
    op: loop.LoadOp | loop.StoreOp, map: AffineMapAttr, value_type: Attribute
) -> Piece | None:
    buffer_type = op.memref.type
    assert isa(buffer_type, MemRefType)
    shape = buffer_type.get_shape()
    length = 1
    if isa(value_type, VectorType):
        (length, *more), (steps, *_) = value_type.get_shape(), op.lane_steps
        if more or steps[-1] != 1 or any(steps[:-1]):
            return None
    start = last = 0
    for expr, extent in zip(map.data.results, shape, strict=True):
        if not isinstance(expr, AffineConstantExpr) or not 0 <= expr.value < extent:
            return None
        last = expr.value
        start = start * extent + last
    if (shape and last + length > shape[-1]) or start % length:
        return None
    return Piece(start, length)


@cache
def _no_indices() -> DenseArrayBase:
    return DenseArrayBase.from_list(i32, (1, 1, 0, 0))
