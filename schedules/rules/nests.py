"""Which loop moves which variable of a block."""

from __future__ import annotations

from xdsl.ir.affine import AffineDimExpr

from tcopt.dialects.loop.analysis import binding_values
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule


def variable_loops(sch: Schedule, block: Block) -> dict[int, Loop]:
    """The loop of each variable that is bound to one loop as it is.

    Args:
        block: a block that was not tiled yet; variables of one point have no loop.
    Returns:
        Loops by the variable's position.
    """
    op = sch.block_op(block)
    by_value = {sch.loop_op(each).induction_variable: each for each in sch.get_loops(block)}
    found: dict[int, Loop] = {}
    for position, binding in enumerate(op.bindings.data.results):
        if isinstance(binding, AffineDimExpr):
            loop = by_value.get(op.operands_[binding.position])
            if loop is not None:
                found[position] = loop
    return found


def loop_variables(sch: Schedule, block: Block) -> list[int]:
    """The variables that are bound to one loop as it is, in the order of these, outermost first."""
    found = variable_loops(sch, block)
    by_loop = {each: variable for variable, each in found.items()}
    return [by_loop[each] for each in sch.get_loops(block) if each in by_loop]


def own_loops(sch: Schedule, block: Block, around: Loop | None) -> dict[int, Loop]:
    """The loops of a block inside of `around`, by the variable that each moves."""
    op, loops = sch.block_op(block), sch.get_loops(block)
    if around is not None:
        loops = loops[loops.index(around) + 1 :]
    found: dict[int, Loop] = {}
    for each in loops:
        value = sch.loop_op(each).induction_variable
        for position in range(len(op.iter_vars)):
            if value in binding_values(op, position):
                found.setdefault(position, each)
    return found
