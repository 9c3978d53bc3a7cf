"""Putting index expressions in place of index values."""

from __future__ import annotations

from xdsl.ir import Block, Operation
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from tcopt.dialects import loop
from tcopt.passes.loop.indexing import Environment, Knowledge, compose, simplify_access


def substitute_values(body: Block, environment: Environment, known: Knowledge) -> None:
    """Put expressions in place of index values in every op of a block, and simplify."""
    for op in tuple(body.ops):
        match op:
            case loop.LoadOp() | loop.StoreOp() | loop.IndexOp() | loop.MaskOp():
                simplify_access(op, known, environment)
            case loop.GuardOp():
                simplify_access(op, known, environment)
                with known.inside_guard(op.map.data.results, op.indices, op.condition_extents):
                    substitute_values(op.body.block, environment, known)
            case loop.ForOp():
                known.enter_loop(op)
                substitute_values(op.body.block, environment, known)
            case loop.IntrinOp():
                _rewrite_intrinsic(op, known, environment)
            case _:
                _rewrite_plain(op, environment, known)


def _rewrite_intrinsic(op: loop.IntrinOp, known: Knowledge, environment: Environment) -> None:
    maps = [m.data for m in op.maps]
    exprs, operands = compose([e for m in maps for e in m.results], op.indices, environment)
    merged, operands = known.simplify(exprs, operands)
    rest = list(merged.results)
    split: list[AffineMap] = []
    for map in maps:
        split.append(AffineMap(len(operands), 0, tuple(rest[: len(map.results)])))
        del rest[: len(map.results)]
    new = loop.IntrinOp(op.intrin.data, op.outputs, op.inputs, split, operands)
    new.attributes.update(op.attributes)
    Rewriter.replace_op(op, new)


def _rewrite_plain(op: Operation, environment: Environment, known: Knowledge) -> None:
    """A replaced value that is used as it is becomes a `loop.index`."""
    for position, operand in enumerate(op.operands):
        if operand in environment:
            expr, values = environment[operand]
            index = loop.IndexOp(*known.simplify([expr], values))
            Rewriter.insert_op(index, InsertPoint.before(op))
            op.operands[position] = index.result
    for region in op.regions:
        for block in region.blocks:
            substitute_values(block, environment, known)
