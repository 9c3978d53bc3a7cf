"""Substitution of expressions for index values."""

from __future__ import annotations

from xdsl.ir import Block, Operation
from xdsl.rewriter import InsertPoint, Rewriter

from tcopt.dialects import loop
from tcopt.passes.loop.analysis.indexing import Environment, IndexedOp, Knowledge, simplify_access


def substitute_values(body: Block, environment: Environment, known: Knowledge) -> None:
    """Substitute expressions for index values in every op of a block, and simplify."""
    for op in tuple(body.ops):
        match op:
            case loop.GuardOp():
                simplify_access(op, known, environment)
                with known.inside_guard(op.map.data.results, op.indices, op.condition_extents):
                    substitute_values(op.body.block, environment, known)
            case loop.ForOp():
                _rewrite_plain(op, environment, known, regions=False)
                with known.inside_loop(op):
                    substitute_values(op.body.block, environment, known)
            case _ if isinstance(op, IndexedOp):
                simplify_access(op, known, environment)
            case _:
                _rewrite_plain(op, environment, known)


def _rewrite_plain(
    op: Operation, environment: Environment, known: Knowledge, *, regions: bool = True
) -> None:
    """Replace operands that are not part of an access by a `loop.index`."""
    for position, operand in enumerate(op.operands):
        if operand in environment:
            expr, values = environment[operand]
            index = loop.IndexOp(*known.simplify([expr], values))
            Rewriter.insert_op(index, InsertPoint.before(op))
            op.operands[position] = index.result
    for region in op.regions if regions else ():
        for block in region.blocks:
            substitute_values(block, environment, known)
