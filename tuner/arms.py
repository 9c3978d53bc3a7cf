"""The schedule rules that apply to a task, each with its search space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr

from tcopt.compiler.passes import run_passes, shared_context
from tcopt.compiler.units import caller_of
from tcopt.dialects import loop, te
from tcopt.dialects.target import TARGET_ATTRIBUTE
from tcopt.schedules.passes.schedule import find_schedule, spaces_of
from tcopt.schedules.rules.rule import (
    AnyRule,
    facts_of,
    is_last_resort,
    rules_for,
    target_kind,
)
from tcopt.schedules.spaces.space import Choice, Space
from tcopt.support.errors import InputError, ScheduleError
from tcopt.support.pipelines.phases import Phase
from tcopt.support.syntax.parsing import TextParser
from tcopt.tuner.search.moves import draw_valid
from tcopt.tuner.search.proposer import Arm
from tcopt.tuner.tasks import Task

_NAME = "candidate"

_COMPARED = 2
"""Random choices compared to decide whether two rules produce the same schedules."""


def arms_of(task: Task) -> list[Arm]:
    """Return the rules that apply to a task: the default rule first, templates last.

    A rule with no open choices has a space of one point. Rules that delegate to another rule and
    last-resort rules are omitted if others apply.
    """
    return arms_in(*lowered(task.text, task.phases))


def arms_in(function: loop.FuncOp, module: ModuleOp) -> list[Arm]:
    """Return the rules that apply to a function; the module names the target."""
    target = module.attributes.get(TARGET_ATTRIBUTE)
    facts, kind = facts_of(target), target_kind(target)
    rules = rules_for(kind)
    rules += [rule for rule in rules_for(kind, templates=True) if rule not in rules]
    takers = _different(spaces_of(function, rules, facts), function, rules, facts)
    able = [each for each in takers if not is_last_resort(each[0])] or takers
    return [Arm(rule.name, space, facts) for rule, space in able]


def _different(
    takers: Sequence[tuple[AnyRule, Space]],
    function: loop.FuncOp,
    rules: Sequence[AnyRule],
    facts: object,
) -> list[tuple[AnyRule, Space]]:
    """Drop rules that produce the same schedules as an earlier one.

    Rules with equal knobs are compared by the schedules of their defaults and of some random
    choices.
    """
    found: list[tuple[AnyRule, Space]] = []
    for rule, space in takers:
        twins = [each for each, other in found if other.knobs == space.knobs and space.knobs]
        points = draw_valid(space, _COMPARED, np.random.default_rng(0)) if twins else ()
        choices = [space.default(), *map(space.choice, points)] if twins else []

        def steps(by: AnyRule, choices: Sequence[Choice] = choices) -> list[str]:
            return [_steps(function, rules, facts, by, choice) for choice in choices]

        if not any(steps(rule) == steps(twin) for twin in twins):
            found.append((rule, space))
    return found


def _steps(
    function: loop.FuncOp, rules: Sequence[AnyRule], facts: object, rule: AnyRule, choice: Choice
) -> str:
    """Return the schedule of a rule for a choice as text, or the error message if it is illegal."""
    try:
        schedule = find_schedule(function, rules, facts, rule=rule.name, choice=choice)
    except (InputError, ScheduleError) as error:
        return error.message.replace(rule.name, "")
    assert schedule is not None
    schedule.sequence.attributes = {}  # The attributes contain the name of the rule.
    return str(schedule.sequence)


def lowered(text: str, phases: Sequence[tuple[str, str]]) -> tuple[loop.FuncOp, ModuleOp]:
    """Lower a task to an unscheduled loop function; return it and its module.

    Args:
        text: a module with one te.func.
        phases: names and passes of the compilation pipeline.
    """
    module = TextParser(shared_context(), text).parse_module()
    functions = [op for op in module.ops if isinstance(op, te.FuncOp)]
    if len(functions) != 1:
        raise InputError("the text of a task must be a module with one te.func")
    caller = caller_of(functions[0], _NAME)
    functions[0].sym_name = StringAttr(_NAME)
    module.body.block.add_op(caller)
    run_passes(module, Phase("loop", dict(phases)["loop"]).passes)
    (function,) = (op for op in module.ops if isinstance(op, loop.FuncOp))
    return function, module
