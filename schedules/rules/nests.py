"""Relation between the loops and the iteration variables of a block."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir.affine import AffineDimExpr

from tcopt.dialects.loop.analysis import binding_values
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule


def variable_loops(sch: Schedule, block: Block) -> dict[int, Loop]:
    """Return the loop of each variable that is bound directly to a loop variable.

    Args:
        block: a block that is not tiled yet; variables with extent 1 have no loop.
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
    """Return the variables that are bound directly to a loop variable, outermost loop first."""
    found = variable_loops(sch, block)
    by_loop = {each: variable for variable, each in found.items()}
    return [by_loop[each] for each in sch.get_loops(block) if each in by_loop]


def own_loops(sch: Schedule, block: Block, around: Loop | None) -> dict[int, Loop]:
    """Return the loops of a block inside of `around`, by the variable that each moves."""
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


def vectorize_tile(sch: Schedule, loops: Sequence[Loop]) -> None:
    """Vectorise the innermost of a tile's loops, if there are any, and unroll those around it."""
    if loops:
        sch.vectorize(loops[-1])
    for each in loops[:-1]:
        sch.unroll(each)
