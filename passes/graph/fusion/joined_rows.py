"""Groups of two contractions and the operators on whole rows between them, as in attention."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from tcopt.dialects.graph.core.forms import ATTENTION, form_declined
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.tuning import FUSE, tuned
from tcopt.dialects.graph.core.types import shape_of, type_of
from tcopt.dialects.target import TargetFacts
from tcopt.support.remarks import remark


def join_rows(
    groups: Sequence[list[Operation]], max_ops: int, target: TargetFacts, by: str
) -> list[list[Operation]]:
    """Join a contraction, the group that normalises its rows, and the contraction of these rows.

    The rows of the product between them are then in cache only, a few at a time.

        %s = graph.matmul %q, %k : tensor<12x128x128xf32>
        %p = graph.softmax %s {axis = 2} : tensor<12x128x128xf32>
        %y = graph.matmul %p, %v : tensor<12x128x64xf32>

    becomes one group, because `%p[..., i, :]` depends on `%q[..., i, :]` only. The groups are
    joined if a schedule rule of the target accepts the last contraction in the form `attention`.

    Args:
        groups: groups of operators, each in program order.
        max_ops: maximum number of operators in a group.
        by: name of the pass, for remarks.
    """
    of_op = {op: group for group in groups for op in group}
    replaced: dict[int, list[Operation]] = {}
    dropped: set[int] = set()
    for last in groups:
        product = _contraction(last)
        if product is None or (found := _before(last, product, of_op)) is None:
            continue
        joined = (*found, last)
        if sum(map(len, joined)) > max_ops:
            continue
        if any(id(group) in dropped or id(group) in replaced for group in joined):
            continue
        if (declined := form_declined(ATTENTION, product, target)) is not None:
            remark(by, product, f"separate kernels for rows: {declined}", missed=True)
            continue
        remark(
            by, product, "fused with the contraction and the ops on rows that produce its operand"
        )
        dropped |= set(map(id, found))
        replaced[id(last)] = [op for group in joined for op in group]
    kept = (group for group in groups if id(group) not in dropped)
    return [_in_order(replaced[id(group)]) if id(group) in replaced else group for group in kept]


def _in_order(ops: list[Operation]) -> list[Operation]:
    """Return operators of one block in program order."""
    block = ops[0].parent_block()
    assert block is not None
    wanted = set(ops)
    return [op for op in block.ops if op in wanted]


def _before(
    last: list[Operation], product: GraphOp, of_op: dict[Operation, list[Operation]]
) -> tuple[list[Operation], list[Operation]] | None:
    """Return the groups of the first contraction and of the rows; None if there are none.

    Args:
        last: the group of the last contraction.
        product: the last contraction.
    """
    if product.multiplied_rows is None:
        return None
    value = product.operands[product.multiplied_rows]
    owner = value.owner
    rows = of_op.get(owner) if isinstance(owner, Operation) else None
    if rows is None or rows is last or owner is not rows[-1]:
        return None
    if any(use.operation is not product for use in value.uses):
        return None
    inputs = (operand.owner for op in rows for operand in op.operands)
    before = [of_op[op] for op in inputs if isinstance(op, Operation) and op in of_op]
    for first in before:
        if first is not rows and _makes_rows(first, rows, product):
            return first, rows
    return None


def _makes_rows(first: list[Operation], rows: list[Operation], product: GraphOp) -> bool:
    """Whether the rows of `product` depend on equal rows of a contraction in `first` alone."""
    source = _contraction(first)
    if source is None or source.multiplied_rows is None:
        return False
    elements = {type_of(value).element_type for value in (*source.operands, *product.operands)}
    if len(elements) > 1 or any(tuned(op, FUSE) == 0 for op in (source, product)):
        return False
    if any(use.operation not in rows for use in first[-1].results[0].uses):
        return False
    shape = source.shape
    kept = (*shape[:-1], 1)
    reached: set[Operation] = {source}
    is_reduced = False
    for op in (*first, *rows):
        if op is source or reached.isdisjoint(operand.owner for operand in op.operands):
            continue
        reached.add(op)
        if not isinstance(op, GraphOp):
            return False
        if op.reduced_axes:
            if op.reduced_axes != (len(shape) - 1,) or shape_of(op.operands[0]) != shape:
                return False
            is_reduced = True
        elif not op.is_elementwise or op.shape not in (shape, kept):
            return False
    result = rows[-1]
    return is_reduced and result in reached and shape_of(result.results[0]) == shape


def _contraction(group: list[Operation]) -> GraphOp | None:
    """Return the only contraction of a group."""
    found = [op for op in group if isinstance(op, GraphOp) and op.stores_anywhere]
    return found[0] if len(found) == 1 else None
