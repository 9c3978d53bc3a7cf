"""Primitives are deterministic: they do not depend on addresses of objects."""

from __future__ import annotations

from programs.schedule_programs import conv
from tcopt.dialects.loop import FuncOp
from tcopt.schedules import Schedule


def _factored(function: FuncOp) -> str:
    """A reduction over three variables, each bound to all of four loops."""
    schedule = Schedule(function)
    block = next(b for b in schedule.blocks() if schedule.block_op(b).is_reduction)
    reduced = schedule.fuse(*schedule.get_loops(block)[-3:])
    schedule.rfactor(schedule.split(reduced, factors=[3, 3, 2, 1])[-2])
    return str(function)


def test_a_factored_reduction_has_its_variables_in_one_order() -> None:
    functions = [conv() for _ in range(40)]
    assert len({_factored(function) for function in functions}) == 1
