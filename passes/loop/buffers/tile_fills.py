"""Loops in which a tile is filled and then used, for passes that fill it in earlier iterations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, Region
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from tcopt.dialects import loop
from tcopt.passes.loop.analysis.surroundings import knowledge_at
from tcopt.passes.loop.edits.dimensions import AccessOp, accesses_of, add_dimension
from tcopt.passes.loop.edits.substitution import substitute_values


@dataclass(frozen=True)
class Fill:
    """A loop in which a buffer is filled and then used.

    Attributes:
        alloc: the buffer.
        op: the op of the loop's body that fills the buffer.
        store: the store of `op`.
        last: the last op of the loop's body that reads the buffer.
        uses: the loads in the loop.
    """

    alloc: loop.AllocOp
    loop: loop.ForOp
    op: Operation
    store: loop.StoreOp
    last: Operation
    uses: tuple[AccessOp, ...]

    def at(self, expr: AffineExpr, slots: int) -> Operation:
        """Return a copy of the op that fills the buffer, for an iteration and its slot.

        Args:
            expr: the iteration, an expression of the loop's variable.
        """
        block = Block([self.op.clone()])
        variable = self.loop.induction_variable
        substitute_values(block, {variable: (expr, [variable])}, knowledge_at(self.op))
        (op,) = block.ops
        op.detach()
        for each in op.walk():
            if isinstance(each, loop.StoreOp) and each.memref is self.alloc.result:
                add_dimension(each, expr % slots, [variable])
        return op

    def guarded(self, op: Operation, ahead: int) -> loop.GuardOp:
        """Guard an op for a later iteration, if there is one."""
        later = AffineMap(1, 0, (AffineDimExpr(0) + ahead,))
        variable, trips = self.loop.induction_variable, self.loop.trip_count
        return loop.GuardOp(later, [variable], [trips], Region(Block([op])))


def fills_of(alloc: loop.AllocOp) -> list[Fill] | None:
    """Return the loops in which a buffer is used; None if one does not have the required form."""
    accesses = accesses_of(alloc)
    return _fills(alloc, accesses) if accesses else None


def _fills(alloc: loop.AllocOp, accesses: Sequence[AccessOp]) -> list[Fill] | None:
    paths = [list(loop.enclosing_loops(op))[::-1] for op in accesses]
    common: list[loop.ForOp] = []
    for level in zip(*paths, strict=False):
        if any(each is not level[0] for each in level):
            break
        common.append(level[0])
    repeated = [each for each in common if each.axis is None and each.trip_count > 1]
    # The first tile is fetched before the loop, which must run at least once.
    if any(each.limit is not None for each in repeated):
        return None
    if repeated:
        fill = _fill(alloc, repeated[-1], accesses)
        return None if fill is None else [fill]
    # Loops that were split, such as one with a separate tail, are handled separately.
    if not common:
        return None
    parts: dict[Operation | None, list[AccessOp]] = {}
    for op in accesses:
        holder = common[-1].body.block.find_ancestor_op_in_block(op)
        parts.setdefault(holder, []).append(op)
    fills: list[Fill] = []
    for part in parts.values():
        found = _fills(alloc, part) if len(parts) > 1 and _is_complete(part) else None
        if found is None:
            return None
        fills += found
    return fills


def _is_complete(accesses: Sequence[AccessOp]) -> bool:
    return len({type(op) for op in accesses}) == 2


def _fill(alloc: loop.AllocOp, around: loop.ForOp, accesses: Sequence[AccessOp]) -> Fill | None:
    body = around.body.block
    stores = [op for op in accesses if isinstance(op, loop.StoreOp)]
    loads = [op for op in accesses if isinstance(op, loop.LoadOp)]
    fills = {body.find_ancestor_op_in_block(op) for op in stores}
    users = {body.find_ancestor_op_in_block(op) for op in loads}
    if len(stores) != 1 or len(fills) != 1 or not users or not fills.isdisjoint(users):
        return None
    (fill,) = fills
    order = [op for op in body.ops if op in users]
    if not isinstance(fill, loop.ForOp | loop.GuardOp) or not fill.is_before_in_block(order[0]):
        return None
    others = [op for op in fill.walk() if isinstance(op, loop.StoreOp | loop.BarrierOp)]
    if others != stores:
        return None
    return Fill(alloc, around, fill, stores[0], order[-1], tuple(loads))
