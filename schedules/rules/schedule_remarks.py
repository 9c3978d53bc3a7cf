"""What a written schedule says about itself, as remarks, and what it leaves of its target."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.utils.hints import isa

from tcopt.dialects.graph.forms import COUNTS_ON_ATTRIBUTE
from tcopt.dialects.loop import FuncOp
from tcopt.dialects.sched import BindOp, ParallelOp, SequenceOp, VectorizeOp
from tcopt.schedules.rules.recorded import knobs_of
from tcopt.schedules.rules.rule import AnyRule, Estimate, provides
from tcopt.support.remarks import remark

SCHEDULED = "scheduled"
"""How the remark of the rule that wrote a schedule begins."""

SLOW_SHARE = 0.1
"""The part of what a target allows below which a kernel is said to be slow."""

LEAST_NS = 10_000
"""Kernels that take less are not worth a word."""


def remark_schedule(function: FuncOp, sequence: SequenceOp) -> None:
    """Remark on the rule and its knobs, the rules that declined, and what is left out."""
    rule = sequence.attributes.get("rule")
    by = rule.data if isinstance(rule, StringAttr) else "schedule"
    ops = list(sequence.body.walk())
    knobs = [f"{name} = {value}" for name, value in knobs_of(sequence).items()]
    remark(by, function, ", ".join([SCHEDULED, *knobs]))
    for name, reason in _declined(sequence).items():
        remark(name, function, reason, missed=True)
    if not any(isinstance(op, VectorizeOp) for op in ops):
        remark(by, function, "not vectorised", missed=True)
    if not any(isinstance(op, ParallelOp | BindOp) for op in ops):
        remark(by, function, "stays on one thread", missed=True)


def remark_difference(function: FuncOp, sequence: SequenceOp, default: SequenceOp | None) -> None:
    """Remark on what a schedule that was told chose, and the default would not have."""
    if default is None:
        return
    told, own = (each.attributes.get("rule") for each in (sequence, default))
    rule = own.data if isinstance(own, StringAttr) else "another rule"
    if told != own:
        remark("apply-tuning", function, f"the default would be of {rule}")
        return
    before, after = knobs_of(default), knobs_of(sequence)
    changed = [
        f"{name} {before.get(name, '-')} -> {value}"
        for name, value in after.items()
        if before.get(name) != value
    ]
    text = ", ".join(changed) or "no other choice"
    remark("apply-tuning", function, f"beside the default: {text}")


def remark_slow(
    function: FuncOp,
    sequence: SequenceOp,
    rules: Iterable[AnyRule],
    estimate: Estimate | None,
) -> None:
    """Remark on a kernel far below what its target allows, and on one for which a pass chose a
    form of an operator that the rule which took it does not carry out."""
    if estimate is not None and estimate.ns < LEAST_NS:
        return
    taken = sequence.attributes.get("rule")
    by = taken.data if isinstance(taken, StringAttr) else "schedule"
    if estimate is not None and estimate.share < SLOW_SHARE:
        text = f"est. {estimate.share:.1%} of what the target allows: {estimate.reason}"
        remark(by, function, text, slow=True)
    declined = _declined(sequence)
    known = list(rules)
    for form in forms_of(function):
        able = [rule.name for rule in known if provides(rule, form)]
        if by in able:
            continue
        reasons = [f"{name}: {declined[name]}" for name in able if name in declined]
        why = ", ".join(reasons) or "no rule of the target provides it"
        remark(by, function, f"the graph counted on a rule for {form}: {why}", slow=True)


def remark_unscheduled(function: FuncOp) -> None:
    """Remark on a function that every rule of the target declined."""
    remark("schedule", function, "no rule of the target schedules it", slow=True)


def forms_of(function: FuncOp) -> Sequence[str]:
    """The forms in which a function's operators are."""
    named = function.attributes.get(COUNTS_ON_ATTRIBUTE)
    if not isa(named, ArrayAttr[StringAttr]):
        return ()
    return [form.data for form in named]


def _declined(sequence: SequenceOp) -> dict[str, str]:
    declined = sequence.attributes.get("declined")
    if not isinstance(declined, DictionaryAttr):
        return {}
    return {n: r.data for n, r in declined.data.items() if isinstance(r, StringAttr)}
