"""Compilation of a candidate and reference results of a task, as run by builder processes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr
from xdsl.ir import Attribute
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.hints import isa

from tcopt.compiler.passes import run_passes, shared_context
from tcopt.compiler.units import caller_of, kind_of, take_caller
from tcopt.dialects import loop, te
from tcopt.dialects.target import TARGET_ATTRIBUTE
from tcopt.schedules.api.apply import apply_sequence
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.passes.schedule import find_schedule
from tcopt.schedules.rules.rule import facts_of, rules_for, target_kind
from tcopt.support.data.dtypes import numpy_dtype
from tcopt.support.errors import InputError, ScheduleError, TcoptError
from tcopt.support.pipelines.phases import Phase
from tcopt.support.syntax.parsing import TextParser
from tcopt.tuner.arguments import WORKSPACE, Argument
from tcopt.tuner.measure.outcomes import COMPILE_ERROR, INVALID, CandidateFailed
from tcopt.tuner.measure.sequences import parse_sequence
from tcopt.tuner.measure.simulation import code_of_call
from tcopt.tuner.measure.workload import Code

NAME = "candidate"
"""Common name of all candidates, so that equal schedules have equal code."""

_SCHEDULING = ("schedule", "apply-schedule")


def build(
    text: str,
    phases: Sequence[tuple[str, str]],
    rule: str = "",
    choice: Mapping[str, int | str] | None = None,
    sequence: str = "",
) -> Code:
    """Compile a task with a schedule.

    Args:
        text, phases: of the task.
        rule, choice, sequence: of the candidate.
    Raises:
        CandidateFailed: the schedule is illegal, or does not compile.
    """
    start = time.perf_counter()
    module, function = _parsed(text)
    caller = caller_of(function, NAME)
    function.sym_name = StringAttr(NAME)
    module.body.block.add_op(caller)
    steps = {name: Phase(name, passes) for name, passes in phases}
    run_passes(module, steps["loop"].passes)
    (looped,) = (op for op in module.ops if isinstance(op, loop.FuncOp))
    schedule = _scheduled(looped, module, rule, choice, sequence)
    found = ""
    if schedule is not None:
        Rewriter.replace_op(looped, schedule.func, [])
        found = str(schedule.sequence)
    try:
        run_passes(module, steps["schedule"].without(*_SCHEDULING).passes)
        run_passes(module, steps["kernel"].passes)
        caller = take_caller(module)
        made = kind_of(module).kernel_code(module, caller)
    except TcoptError as error:
        raise CandidateFailed(COMPILE_ERROR, error.message) from error
    attribute = None if schedule is None else schedule.sequence.attributes.get("rule")
    return Code(
        symbol=f"tcopt.{NAME}",
        data=made.code if made.host_call is None else code_of_call(made.host_call),
        externals=tuple(made.externals),
        workspace=tuple(_workspace(type_) for type_ in made.workspace),
        launches=tuple(asdict(launch) for launch in made.launches),
        sequence=found,
        rule=attribute.data if isinstance(attribute, StringAttr) else rule,
        choice=choice,
        seconds=time.perf_counter() - start,
    )


def _parsed(text: str) -> tuple[ModuleOp, te.FuncOp]:
    module = TextParser(shared_context(), text).parse_module()
    (function,) = module.ops
    if not isinstance(function, te.FuncOp):
        raise InputError("the text of a task must be a module with one te.func")
    return module, function


def _scheduled(
    function: loop.FuncOp,
    module: ModuleOp,
    rule: str,
    choice: Mapping[str, int | str] | None,
    sequence: str,
) -> Schedule | None:
    try:
        if sequence:
            return apply_sequence(parse_sequence(sequence), function.clone())
        target = module.attributes.get(TARGET_ATTRIBUTE)
        rules = rules_for(target_kind(target), templates=bool(rule))
        if not rule:
            return find_schedule(function, rules, facts_of(target))
        schedule = find_schedule(function, rules, facts_of(target), rule=rule, choice=choice)
    except (ScheduleError, InputError, ParseError, VerifyException) as error:
        message = error.message if isinstance(error, TcoptError) else str(error)
        raise CandidateFailed(INVALID, message) from error
    if schedule is None:
        raise CandidateFailed(INVALID, f"rule '{rule}' declines")
    return schedule


def _workspace(text: str) -> Argument:
    type_ = TextParser(shared_context(), text).parse_type()
    assert isa(type_, MemRefType[Attribute])
    return Argument(tuple(type_.get_shape()), numpy_dtype(type_.element_type).name, WORKSPACE)
