"""The pass `schedule`.

A walk by hand: rules are asked about functions one by one, and write sequences beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tcopt.dialects.loop import FuncOp
from tcopt.dialects.sched import SequenceOp
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.rule import (
    ESTIMATES,
    Declined,
    ScheduleRule,
    facts_of,
    rules_for,
    target_kind,
)
from tcopt.schedules.rules.schedule_remarks import remark_schedule, remark_slow, remark_unscheduled
from tcopt.support.errors import ScheduleError
from tcopt.support.remarks import listening


@dataclass(frozen=True)
class SchedulePass(ModulePass):
    """Writes a schedule for each function that has none, by the rules of the target.

        loop.func @f(...) {...}
    ->
        loop.func @f(...) {...}
        sched.sequence @f_schedule for @f attributes {
            rule = "cpu-injective", declined = {"cpu-contraction" = "no block adds products"}} {
          %add = sched.get_block "add"
          ...
        }

    The function itself is left alone, unless the option says otherwise. `rule` is the rule
    that wrote the sequence, `declined` the rules asked before it with their reasons; a rule
    whose step fails has declined too. The target is the module's attribute `tcopt.target`.

    Options:
        now: put what the rule has made in the function's place, instead of its sequence; the
            same function as `apply-schedule` makes, without doing every step once more.
    """

    name = "schedule"

    now: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = op.attributes.get("tcopt.target")
        rules = rules_for(target_kind(target))
        facts, estimate = facts_of(target), ESTIMATES.get(target_kind(target))
        scheduled = {s.function.string_value() for s in op.ops if isinstance(s, SequenceOp)}
        for function in list(op.ops):
            if not isinstance(function, FuncOp) or function.sym_name.data in scheduled:
                continue
            if (schedule := find_schedule(function, rules, facts)) is None:
                remark_unscheduled(function)
                continue
            if listening():
                remark_schedule(function, schedule.sequence)
                guess = None if estimate is None else estimate(function, schedule.func, facts)
                remark_slow(function, schedule.sequence, rules, guess)
            if self.now:
                Rewriter.replace_op(function, schedule.func, [])
            else:
                op.body.block.insert_op_after(schedule.sequence, function)


def write_schedule(
    function: FuncOp, rules: Sequence[ScheduleRule], facts: object
) -> SequenceOp | None:
    """The schedule that the first rule which does not decline writes; None if all do."""
    schedule = find_schedule(function, rules, facts)
    return None if schedule is None else schedule.sequence


def find_schedule(
    function: FuncOp, rules: Sequence[ScheduleRule], facts: object
) -> Schedule | None:
    """What the first rule that does not decline makes of a copy of a function; None if all do."""
    declined: dict[str, StringAttr] = {}
    schedule: Schedule | None = None
    for rule in rules:
        # What a rule left untouched serves the next one.
        if schedule is None or schedule.sequence.body.block.first_op is not None:
            schedule = Schedule(function.clone())
        try:
            answer = rule.apply(schedule, facts)
        except ScheduleError as error:
            answer = Declined(error.message)
        if isinstance(answer, Declined):
            if not answer.quiet:
                declined[rule.name] = StringAttr(answer.reason)
            continue
        sequence = schedule.sequence
        sequence.attributes["rule"] = StringAttr(rule.name)
        if declined:
            sequence.attributes["declined"] = DictionaryAttr(dict(declined))
        return schedule
    return None
