"""Operators that an accelerator applies to sums while it stores them."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import element_type, shape_of
from tcopt.dialects.graph.movement.layout import SPATIAL, LayoutTransformOp
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.target.accelerator import AcceleratorFacts
from tcopt.passes.graph.placement.alu_chains import AluChain
from tcopt.passes.graph.placement.blocks import layout_of

_MOST = 8
"""Maximum number of operators that one instruction replaces."""


def follow_read_out(chain: AluChain, facts: AcceleratorFacts) -> bool:
    """Extend a chain without ALU by as many operators as the store unit can apply
    (`AcceleratorFacts.reads_out`); return whether there are any."""
    ops = _following(chain)
    results = facts.matrix_unit.results if facts.matrix_unit is not None else ()
    while ops and not (str(element_type(ops[-1].results[0])) in results and facts.reads_out(ops)):
        ops.pop()
    for op in ops:
        _append(chain, op)
    return bool(ops)


def _following(chain: AluChain) -> list[GraphOp]:
    """Return the sequence of operators that read only the sums and constants."""
    ops: list[GraphOp] = []
    value = chain.op.results[0]
    while len(ops) < _MOST:
        users = chain.users(value)
        if len(users) != 1 or not users[0].is_elementwise:
            break
        (op,) = users
        others = [operand for operand in op.operands if operand is not value]
        is_plain = shape_of(op.results[0]) == chain.op.shape
        if not is_plain or len(others) + 1 != len(op.operands):
            break
        if any(_in_blocks(chain, other) is None for other in others):
            break
        ops.append(op)
        value = op.results[0]
    return ops


def _append(chain: AluChain, op: GraphOp) -> None:
    """Append an operator to a chain, on blocked operands."""
    sums, plain = chain.body[-1].results[0], chain.end.results[0]
    operands: list[SSAValue] = []
    for operand in op.operands:
        if operand is plain:
            operands.append(sums)
            continue
        made = _in_blocks(chain, operand)
        assert made is not None, "asked before"
        chain.before += made
        operands.append(made[-1].results[0] if made else operand)
    chain.body.append(op.with_operands(operands, shape_of(sums)))
    chain.followed.append(op)


def _in_blocks(chain: AluChain, value: SSAValue) -> list[GraphOp] | None:
    """Return the ops that convert one value per channel to blocks, none for a single value; None
    for any other operand."""
    numbers = chain.number(value)
    if numbers is None:
        return None
    if numbers.size == 1:
        return []
    back = layout_of(chain.form.after)
    if numbers.size != chain.channels or back is None:
        return None
    rank = len(back.shape) - 2
    column = ReshapeOp(value, (1, chain.channels, *[1] * rank))
    return [column, LayoutTransformOp(column, src=f"NC{SPATIAL[rank]}", dst=back.src.data)]
