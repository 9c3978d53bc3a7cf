"""The rules that take a task, each with the space of its choices."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr

from tcopt.compiler.passes import run_passes, shared_context
from tcopt.compiler.units import caller_of
from tcopt.dialects import loop, te
from tcopt.dialects.target import TARGET_ATTRIBUTE
from tcopt.schedules.passes.schedule import spaces_of
from tcopt.schedules.rules.rule import facts_of, rules_for, target_kind
from tcopt.support.errors import InputError
from tcopt.support.parsing import TextParser
from tcopt.support.phases import Phase
from tcopt.tuner.search.proposer import Arm
from tcopt.tuner.tasks import Task

_NAME = "candidate"


def arms_of(task: Task) -> list[Arm]:
    """The rules that take a task, the one that schedules it by default first, templates last.

    A rule that leaves nothing open has one choice.
    """
    return arms_in(*lowered(task.text, task.phases))


def arms_in(function: loop.FuncOp, module: ModuleOp) -> list[Arm]:
    """The rules that take a function; the module says for which target."""
    target = module.attributes.get(TARGET_ATTRIBUTE)
    facts, kind = facts_of(target), target_kind(target)
    rules = rules_for(kind)
    rules += [rule for rule in rules_for(kind, templates=True) if rule not in rules]
    return [Arm(rule.name, space, facts) for rule, space in spaces_of(function, rules, facts)]


def lowered(text: str, phases: Sequence[tuple[str, str]]) -> tuple[loop.FuncOp, ModuleOp]:
    """A task's function as loops, not scheduled yet, and the module that it is in.

    Args:
        text: a module with one te.func.
        phases: names and passes of what compiles it.
    """
    module = TextParser(shared_context(), text).parse_module()
    functions = [op for op in module.ops if isinstance(op, te.FuncOp)]
    if len(functions) != 1:
        raise InputError("the text of a task is a module with one te.func")
    caller = caller_of(functions[0], _NAME)
    functions[0].sym_name = StringAttr(_NAME)
    module.body.block.add_op(caller)
    run_passes(module, Phase("loop", dict(phases)["loop"]).passes)
    (function,) = (op for op in module.ops if isinstance(op, loop.FuncOp))
    return function, module
