"""Edits of the index expressions inside a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from tcopt.dialects.loop import IndexOp, InitOp, IntrinOp, LoadOp, StoreOp
from tcopt.dialects.loop.analysis import over, value_ranges
from tcopt.support.arithmetic.affine import simplify
from tcopt.support.syntax.access_syntax import unique_operands

IndexedOp = LoadOp | StoreOp | IndexOp | IntrinOp


@dataclass(frozen=True)
class IndexExpr:
    """An affine index expression `expr` over `values`."""

    expr: AffineExpr
    values: tuple[SSAValue, ...]


def substitute_indices(body: Block, replaced: Mapping[SSAValue, IndexExpr]) -> None:
    """Replace index values by index expressions everywhere in `body`.

    Accesses compose the expression with their maps; other uses get a `loop.index` op.
    """
    made: dict[SSAValue, SSAValue] = {}
    for op in list(body.walk()):
        if isinstance(op, IndexedOp):
            _substitute_access(op, replaced)
            continue
        for position, operand in enumerate(op.operands):
            if operand in replaced:
                if operand not in made:
                    made[operand] = _materialize(body, operand, replaced[operand])
                op.operands[position] = made[operand]


def compose(
    map: AffineMap, operands: Sequence[SSAValue], replaced: Mapping[SSAValue, IndexExpr]
) -> tuple[AffineMap, list[SSAValue]]:
    """Return `map` over `operands` with some operands replaced by expressions, simplified."""
    values: list[SSAValue] = []
    dims: list[AffineExpr] = []
    for operand in operands:
        known = replaced.get(operand, IndexExpr(AffineDimExpr(0), (operand,)))
        dims.append(over(known.expr, known.values, values))
    ranges = value_ranges(values)
    results = tuple(simplify(e.replace_dims_and_symbols(dims, ()), ranges) for e in map.results)
    return unique_operands(AffineMap(len(values), 0, results), values)


def set_access(op: IndexedOp, map: AffineMap, values: Sequence[SSAValue]) -> None:
    """Replace the indices of an access."""
    op.map = AffineMapAttr(map)
    op.set_indices(values)


def _substitute_access(op: IndexedOp, replaced: Mapping[SSAValue, IndexExpr]) -> None:
    if any(v in replaced for v in op.indices):
        set_access(op, *compose(op.map.data, op.indices, replaced))


def _materialize(body: Block, value: SSAValue, index: IndexExpr) -> SSAValue:
    """Insert a `loop.index` after the definitions of all values of the expression."""
    op = IndexOp(AffineMap(len(index.values), 0, (index.expr,)), index.values)
    op.result.name_hint = value.name_hint
    last: Operation | None = None
    for defined in index.values:
        owner = defined.owner
        if isinstance(owner, Operation) and owner.parent_block() is body:
            last = owner if last is None or last.is_before_in_block(owner) else last
    if last is not None:
        body.insert_op_after(op, last)
    elif isinstance(first := body.first_op, InitOp):
        body.insert_op_after(op, first)
    elif first is not None:
        body.insert_op_before(op, first)
    else:
        body.add_op(op)
    return op.result
