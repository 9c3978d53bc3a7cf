"""Collection of known index facts from the loops and guards around an op."""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.ir.affine import AffineDimExpr

from tcopt.dialects import loop
from tcopt.passes.loop.analysis.indexing import Knowledge
from tcopt.support.arithmetic.intervals import range_below
from tcopt.support.arithmetic.sizes import upper_bound
from tcopt.support.ir.quick_ir import walk_ops


def knowledge_at(op: Operation) -> Knowledge:
    """Return the facts that hold at an op, from the loops and guards around it."""
    around: list[loop.ForOp | loop.GuardOp] = []
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, loop.FuncOp):
        if isinstance(parent, loop.ForOp | loop.GuardOp):
            around.append(parent)
        parent = parent.parent_op()
    known = Knowledge.of(parent) if isinstance(parent, loop.FuncOp) else Knowledge()
    for each in reversed(around):
        known.enter(each)
    return known


def knowledge_in(op: Operation) -> Knowledge:
    """Return the facts that hold at an op of a block: the domains of the block's variables."""
    function, block = loop.function_of(op), loop.owning_block(op)
    known = Knowledge() if function is None else Knowledge.of(function)
    if block is None:
        return known
    for variable, extent in zip(block.iter_vars, block.live_domain, strict=True):
        known.ranges[variable] = range_below(upper_bound(extent))
        found = known.conditions(AffineDimExpr(0), [variable], extent)
        exprs, extents = [expr for expr, _ in found.pairs], [n for _, n in found.pairs]
        known.assume(exprs, found.operands, extents)
    return known


def ranges_inside(root: Operation) -> Knowledge:
    """Return the ranges of the variables of all loops in an op."""
    known = Knowledge()
    for op in walk_ops(root):
        if isinstance(op, loop.ForOp):
            known.enter_loop(op)
    return known
