"""Accesses to buffers, with indices over the loops around them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from tcopt.dialects.loop import (
    BlockOp,
    ForOp,
    IndexOp,
    IntrinOp,
    LoadOp,
    PrefetchOp,
    StoreOp,
    owning_block,
)
from tcopt.dialects.loop import loop_of as owner_loop
from tcopt.dialects.loop.analysis import accesses as accesses_of
from tcopt.dialects.loop.analysis import block_of
from tcopt.schedules.dependences.texts import access_text
from tcopt.schedules.state.state import loops_of
from tcopt.support.arithmetic.affine import substitute


@dataclass(frozen=True, eq=False)
class Touch:
    """One access to a buffer.

    Attributes:
        reach: for each dimension, the number of elements below and above the index that a vector or
            tile access covers.
    """

    op: Operation
    buffer: SSAValue
    is_write: bool
    reach: tuple[tuple[int, int], ...]
    _map: tuple[AffineExpr, ...] | None
    _operands: tuple[SSAValue, ...]

    def __str__(self) -> str:
        return access_text(self.op, self.buffer)

    @cached_property
    def block(self) -> BlockOp | None:
        """The block whose body holds the access."""
        return owning_block(self.op)

    @cached_property
    def loops(self) -> tuple[ForOp, ...]:
        """The loops around the access, outermost first."""
        return tuple(loops_of(self.op))

    @cached_property
    def indices(self) -> tuple[AffineExpr | None, ...] | None:
        """Each index over the variables of `loops`; None for an index computed from data.

        None instead of the tuple if nothing is known about the indices.
        """
        if self._map is None:
            return None
        operands = [self._expand(value) for value in self._operands]
        return tuple(_apply(expr, operands) for expr in self._map)

    @cached_property
    def domain(self) -> tuple[tuple[AffineExpr, int], ...]:
        """Expressions over `loops` with extents: the access runs if each is in [0, extent)."""
        if self.block is None:
            return ()
        operands = [self._expand(value) for value in self.block.operands_]
        exprs = [_apply(expr, operands) for expr in self.block.bindings.data.results]
        pairs = zip(exprs, self.block.domain, strict=True)
        return tuple((expr, extent) for expr, extent in pairs if expr is not None)

    def _expand(self, value: SSAValue) -> AffineExpr | None:
        if (loop := owner_loop(value)) is not None:
            return AffineExpr.dimension(self.loops.index(loop)) if loop in self.loops else None
        if (block := block_of(value)) is not None:
            position = block.iter_vars.index(value)
            operands = [self._expand(each) for each in block.operands_]
            return _apply(block.bindings.data.results[position], operands)
        if isinstance(owner := value.owner, IndexOp):
            operands = [self._expand(each) for each in owner.indices]
            return _apply(owner.map.data.results[0], operands)
        return None


def _apply(expr: AffineExpr, operands: list[AffineExpr | None]) -> AffineExpr | None:
    if any(operands[position] is None for position in expr.used_dims()):
        return None
    known = [AffineExpr.constant(0) if each is None else each for each in operands]
    return substitute(expr, known)


def touches(buffer: SSAValue, root: Operation) -> list[Touch]:
    """Return all accesses to `buffer` at or below `root`, in program order."""
    ops = {use.operation for use in buffer.uses}
    return [touch for op in root.walk() if op in ops for touch in _touches_of(op, buffer)]


def _touches_of(op: Operation, buffer: SSAValue) -> Iterator[Touch]:
    if isinstance(op, PrefetchOp):
        return
    if not isinstance(op, LoadOp | StoreOp | IntrinOp):
        yield Touch(op, buffer, True, (), None, ())
        return
    for access in accesses_of(op):
        if access.buffer is not buffer:
            continue
        yield Touch(
            op,
            buffer,
            access.is_write,
            tuple(access.reaches),
            access.indices,
            access.operands,
        )
