"""The pass `schedule`.

A walk by hand: rules are asked about one function after another, and the sequences are added next
to the functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tcopt.dialects.loop import FuncOp
from tcopt.dialects.sched import SequenceOp
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.recorded import CHOICE, choice_attribute
from tcopt.schedules.rules.rule import (
    ESTIMATES,
    AnyRule,
    Declined,
    ScheduleRule,
    TunableRule,
    facts_of,
    rules_for,
    space_of,
    target_kind,
)
from tcopt.schedules.rules.schedule_remarks import (
    remark_difference,
    remark_schedule,
    remark_slow,
    remark_unscheduled,
)
from tcopt.schedules.spaces.closed import Closed
from tcopt.schedules.spaces.space import Choice, Space
from tcopt.schedules.tuning.lock_file import choice_of
from tcopt.support.errors import InputError, ScheduleError
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

    The function itself is not changed unless `now` is set. `rule` is the rule that wrote the
    sequence, `choice` the values of its knobs if it has any, and `declined` the rules asked before
    it, with their reasons. A rule declines also if one of its steps fails. The target is the
    module's attribute `tcopt.target`.

    A sequence without steps that has a `rule` and a `choice` is replaced by the steps that the rule
    writes for the choice.

    Options:
        now: replace the function by the scheduled one instead of adding a sequence. The result is
            the same as after `apply-schedule`, without applying every step twice.
    """

    name = "schedule"
    applies_steps: ClassVar[bool] = True

    now: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = op.attributes.get("tcopt.target")
        rules = rules_for(target_kind(target))
        facts, estimate = facts_of(target), ESTIMATES.get(target_kind(target))
        told = {s.function.string_value(): s for s in op.ops if isinstance(s, SequenceOp)}
        for function in list(op.ops):
            if not isinstance(function, FuncOp):
                continue
            sequence = told.get(function.sym_name.data)
            if sequence is not None and not is_unwritten(sequence):
                if listening():
                    remark_schedule(function, sequence)
                    remark_difference(function, sequence, write_schedule(function, rules, facts))
                continue
            schedule = (
                find_schedule(function, rules, facts)
                if sequence is None
                else _written(sequence, function, rules, facts)
            )
            if schedule is None:
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


def is_unwritten(sequence: SequenceOp) -> bool:
    """Whether a sequence has a rule and a choice, but no steps: the rule has yet to write them."""
    return sequence.body.block.first_op is None and CHOICE in sequence.attributes


def _written(
    sequence: SequenceOp, function: FuncOp, rules: Sequence[AnyRule], facts: object
) -> Schedule:
    """Return the schedule that a sequence's rule writes for its choice; erase the sequence."""
    rule, choice = sequence.attributes.get("rule"), choice_of(sequence)
    if not isinstance(rule, StringAttr):
        raise ScheduleError("the sequence has a choice, but no rule", op=sequence)
    try:
        schedule = find_schedule(function, rules, facts, rule=rule.data, choice=choice)
    except (InputError, ScheduleError) as error:
        raise ScheduleError(error.message, op=sequence, hint=error.hint) from error
    assert schedule is not None
    Rewriter.erase_op(sequence)
    return schedule


def write_schedule(function: FuncOp, rules: Sequence[AnyRule], facts: object) -> SequenceOp | None:
    """Return the sequence of the first rule that does not decline; None if all decline."""
    schedule = find_schedule(function, rules, facts)
    return None if schedule is None else schedule.sequence


def find_schedule(
    function: FuncOp,
    rules: Sequence[AnyRule],
    facts: object,
    *,
    rule: str | None = None,
    choice: Mapping[str, int | str] | None = None,
) -> Schedule | None:
    """Schedule a copy of a function by the first rule that does not decline; None if all decline.

    Args:
        rule: name of the only rule to ask; by default, rules are asked in order.
        choice: knob values for that rule, kinds as number or label; its default choice if None.
    Raises:
        InputError: there is no such rule, or the choice is not one of its space.
        ScheduleError: the named rule declines the function.
    """
    if rule is not None:
        return _schedule_by(function, _rule_named(rule, rules), facts, choice)
    if choice is not None:
        raise InputError("a choice needs a rule", hint="name the rule as well")
    declined: dict[str, StringAttr] = {}
    schedule: Schedule | None = None
    for each in rules:
        # A schedule that a declining rule did not change is reused for the next rule.
        if schedule is None or schedule.sequence.body.block.first_op is not None:
            schedule = Schedule(function.clone())
        try:
            answer = _ask(each, schedule, facts, None)
        except ScheduleError as error:
            answer = Declined(error.message)
        if isinstance(answer, Declined):
            if not answer.quiet:
                declined[each.name] = StringAttr(answer.reason)
            continue
        if declined:
            schedule.sequence.attributes["declined"] = DictionaryAttr(dict(declined))
        return schedule
    return None


def spaces_of(
    function: FuncOp, rules: Sequence[AnyRule], facts: object
) -> list[tuple[AnyRule, Space]]:
    """Return the rules that apply to a function, each with its space of choices.

    The first one schedules the function by default. A rule without choices has a space of one
    choice without knobs.
    """
    found: list[tuple[AnyRule, Space]] = []
    for rule in rules:
        # A space refers to blocks, which rules change, so it gets a copy of its own.
        opened, tried = Schedule(function.clone()), Schedule(function.clone())
        try:
            space = space_of(rule, opened, facts)
            if not isinstance(space, Declined) and _ask(rule, tried, facts, None) is None:
                found.append((rule, Closed() if space is None else space))
        except ScheduleError:
            continue
    return found


def _schedule_by(
    function: FuncOp,
    rule: AnyRule,
    facts: object,
    choice: Mapping[str, int | str] | None,
) -> Schedule:
    """Schedule a copy of a function by one rule."""
    schedule = Schedule(function.clone())
    answer = _ask(rule, schedule, facts, choice)
    if isinstance(answer, Declined):
        raise ScheduleError(f"{rule.name} declines @{function.sym_name.data}: {answer.reason}")
    return schedule


def _rule_named(name: str, rules: Sequence[AnyRule]) -> AnyRule:
    for rule in rules:
        if rule.name == name:
            return rule
    known = ", ".join(rule.name for rule in rules)
    raise InputError(f"the target has no schedule rule '{name}'", hint=f"there are {known}")


def _ask(
    rule: AnyRule,
    schedule: Schedule,
    facts: object,
    words: Mapping[str, int | str] | None,
) -> Declined | None:
    """Let a rule write a schedule; record its name and choice."""
    space = space_of(rule, schedule, facts)
    if isinstance(space, Declined):
        return space
    recorded = schedule.sequence.attributes
    if space is None:
        Closed().from_words(words or {})
        answer = cast(ScheduleRule, rule).apply(schedule, facts)
        choice = None
    else:
        choice = space.default() if words is None else _valid(space, words)
        answer = cast(TunableRule, rule).apply(schedule, facts, space, choice)
    if answer is None:
        recorded["rule"] = StringAttr(rule.name)
        if space is not None and choice and (words := space.words(choice)):
            recorded[CHOICE] = choice_attribute(words)
    return answer


def _valid(space: Space, words: Mapping[str, int | str]) -> Choice:
    choice = space.from_words(words)
    if not space.is_valid(choice):
        raise InputError(
            f"the choice {space.words(choice)} is illegal",
            hint="it exceeds registers, memory or threads, or its sizes do not fit each other",
        )
    return choice
