"""Which part of a buffer is accessed inside a loop, as boxes that move with the loops around."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from tcopt.dialects import loop
from tcopt.passes.loop.analysis.indexing import (
    Knowledge,
    ValueSum,
    compose,
    shape_of,
    value_sum,
)
from tcopt.support.affine import (
    Atom,
    Dim,
    LinearSum,
    Range,
    compact_map,
    linear_sum,
    sum_range,
    to_expr,
    used_dims,
)

AccessOp = loop.LoadOp | loop.StoreOp


@dataclass(frozen=True)
class BufferAccess:
    """A load, a store, or one tile of an intrinsic.

    Attributes:
        reaches: how far other elements lie below and above the first, along each dimension.
        may_leave: whether elements outside of the buffer are a default.
        tile: the number of the intrinsic's tile.
    """

    op: AccessOp | loop.IntrinOp
    buffer: SSAValue
    exprs: tuple[AffineExpr, ...]
    reaches: Sequence[Range]
    is_read: bool
    is_write: bool
    may_leave: bool = False
    tile: int = 0

    @property
    def indices(self) -> Sequence[SSAValue]:
        """What the expressions range over."""
        return self.op.indices


def accesses_to(buffer: SSAValue, op: Operation) -> list[BufferAccess]:
    """The accesses of an op to a buffer; none if it uses the buffer otherwise."""
    match op:
        case loop.LoadOp():
            exprs, leaves = op.map.data.results, op.default is not None
            return [BufferAccess(op, buffer, exprs, op.lane_reaches, True, False, leaves)]
        case loop.StoreOp():
            exprs = op.map.data.results
            return [BufferAccess(op, buffer, exprs, op.lane_reaches, False, True)]
        case loop.IntrinOp():
            return [
                BufferAccess(
                    op,
                    buffer,
                    tile.first,
                    tile.reaches,
                    tile.is_read,
                    tile.is_output,
                    tile.is_padded,
                    position,
                )
                for position, tile in enumerate(op.tiles)
                if tile.buffer is buffer
            ]
        case _:
            return []


@dataclass(frozen=True)
class Interval:
    """`base + [low, high]` along one dimension; the base is over variables of outer loops."""

    base: AffineExpr
    operands: tuple[SSAValue, ...]
    key: ValueSum
    """The base in a form that compares equal for equal bases."""
    low: int
    high: int

    @property
    def extent(self) -> int:
        return self.high - self.low + 1

    def contains(self, other: Interval) -> bool:
        return self.key == other.key and self.low <= other.low and other.high <= self.high

    def union(self, other: Interval) -> Interval | None:
        """The smallest interval over both; None when they move differently."""
        if self.key != other.key:
            return None
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Interval(self.base, self.operands, self.key, low, high)


def whole(extent: int) -> Interval:
    """All of a dimension."""
    base = LinearSum((), 0)
    return Interval(to_expr(base), (), value_sum(base, ()), 0, extent - 1)


def loops_around(op: Operation) -> list[loop.ForOp]:
    """The loops around an op, outermost first."""
    return list(loop.enclosing_loops(op))[::-1]


def block_of(op: Operation) -> loop.BlockOp | None:
    """The block that an op belongs to."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, loop.BlockOp | loop.FuncOp):
        parent = parent.parent_op()
    return parent if isinstance(parent, loop.BlockOp) else None


def over_loops(
    exprs: Sequence[AffineExpr], operands: Sequence[SSAValue], op: Operation
) -> tuple[list[AffineExpr], list[SSAValue]]:
    """Expressions of an op in a block, over the loops around instead of the block's variables."""
    block = block_of(op)
    if block is None:
        return list(exprs), list(operands)
    bound = tuple(block.operands)
    environment = {
        variable: (binding, bound)
        for variable, binding in zip(block.iter_vars, block.bindings.data.results, strict=True)
    }
    return compose(exprs, operands, environment)


def intervals(
    access: BufferAccess, inner: Collection[SSAValue], known: Knowledge, *, clipped: bool = True
) -> list[Interval]:
    """The box that one access covers while the loops of `inner` variables run.

    Unless `clipped`, it holds what the indices range over even outside of the buffer.

    A dimension whose index mixes inner and outer variables inside a division, or holds a
    value that is no loop variable, counts as accessed whole.
    """
    exprs, operands = over_loops(access.exprs, access.indices, access.op)
    result: list[Interval] = []
    for expr, extent, (below, above) in zip(
        exprs, shape_of(access.buffer), access.reaches, strict=True
    ):
        found = _interval(expr, operands, inner, known)
        if found is not None and (below or above):
            found = replace(found, low=found.low + below, high=found.high + above)
        if found is None:
            found = whole(extent)
        elif clipped and not found.key.terms and not access.may_leave:
            low, high = max(found.low, 0), min(found.high, extent - 1)
            found = Interval(found.base, found.operands, found.key, low, max(low, high))
        result.append(found)
    return result


def _interval(
    expr: AffineExpr, operands: Sequence[SSAValue], inner: Collection[SSAValue], known: Knowledge
) -> Interval | None:
    ranges = known.ranges_of(operands)
    total = linear_sum(expr, ranges)
    moving: list[tuple[Atom, int]] = []
    fixed: list[tuple[Atom, int]] = []
    for atom, factor in total.terms:
        used = {atom.position} if isinstance(atom, Dim) else used_dims(to_expr(atom.operand))
        values = [operands[i] for i in used]
        if any(value not in known.ranges for value in values):
            return None
        inside = [value in inner for value in values]
        if all(inside):
            moving.append((atom, factor))
        elif any(inside):
            return None
        else:
            fixed.append((atom, factor))
    base = LinearSum(tuple(fixed), 0)
    low, high = sum_range(LinearSum(tuple(moving), total.constant), ranges)
    compact, kept = compact_map([to_expr(base)], len(operands))
    values = tuple(operands[i] for i in kept)
    return Interval(compact.results[0], values, value_sum(base, operands), low, high)
