"""Application of schedule rules."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import StringAttr

from programs.schedule_programs import matmul
from tcopt.schedules import Schedule
from tcopt.schedules.passes.schedule import write_schedule
from tcopt.schedules.rules.rule import Declined, rules_for


class Picky:
    """Rule that changes the function before it declines."""

    name = "picky"

    def apply(self, sch: Schedule, target: object) -> Declined | None:
        sch.parallel(sch.get_loops("mm")[0])
        return Declined("the moon is full")


class Clumsy:
    """Rule that violates a precondition."""

    name = "clumsy"

    def apply(self, sch: Schedule, target: object) -> Declined | None:
        sch.vectorize(sch.get_loops("mm")[0])
        return None


class Plain:
    """Rule that accepts every function."""

    name = "plain"

    def apply(self, sch: Schedule, target: object) -> Declined | None:
        sch.parallel(sch.get_loops("mm")[0])
        return None


def test_the_first_rule_that_does_not_decline_writes_the_schedule() -> None:
    """Changes by declining rules are discarded, and their reasons are recorded."""
    function = matmul()
    before = str(function)
    sequence = write_schedule(function, [Picky(), Clumsy(), Plain()], None)
    assert sequence is not None
    assert str(function) == before
    assert [op.name for op in sequence.body.block.ops] == [
        "sched.get_block",
        "sched.get_loops",
        "sched.parallel",
    ]
    assert sequence.attributes["rule"] == StringAttr("plain")
    declined = str(sequence.attributes["declined"])
    assert "the moon is full" in declined
    assert "only blocks become lanes" in declined


def test_no_rule_no_schedule() -> None:
    """A function that every rule declines has no sequence."""
    assert write_schedule(matmul(), [Picky()], None) is None


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_each_rule_states_its_choices_or_why_it_has_none(kind: str) -> None:
    for rule in rules_for(kind, templates=True):
        reason = getattr(rule, "closed", None)
        if hasattr(rule, "space"):
            assert reason is None, f"{rule.name} leaves something open and says {reason!r}"
        else:
            assert isinstance(reason, str), f"{rule.name} has no space, and does not say why"
            assert reason.strip() and len(reason.splitlines()) == 1
