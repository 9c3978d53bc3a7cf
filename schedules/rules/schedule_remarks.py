"""Remarks on schedules: knobs, rules that declined, and missed performance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.utils.hints import isa

from tcopt.dialects.graph.core.forms import COUNTS_ON_ATTRIBUTE
from tcopt.dialects.loop import FuncOp
from tcopt.dialects.sched import BindOp, ParallelOp, SequenceOp, VectorizeOp
from tcopt.schedules.rules.recorded import knobs_of
from tcopt.schedules.rules.rule import AnyRule, Estimate, provides
from tcopt.support.remarks import remark

SCHEDULED = "scheduled"
"""Prefix of the remark by the rule that wrote a schedule."""

SLOW_SHARE = 0.1
"""Fraction of the attainable performance below which a kernel is reported as slow."""

LEAST_NS = 10_000
"""Minimum time of a kernel in nanoseconds to be reported as slow."""


def remark_schedule(function: FuncOp, sequence: SequenceOp) -> None:
    """Remark on the rule and its knobs, rules that declined, and missing vectors or threads."""
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
    """Remark on the differences between a tuned schedule and the default one."""
    if default is None:
        return
    told, own = (each.attributes.get("rule") for each in (sequence, default))
    rule = own.data if isinstance(own, StringAttr) else "another rule"
    if told != own:
        remark("apply-tuning", function, f"by default, {rule} would schedule it")
        return
    before, after = knobs_of(default), knobs_of(sequence)
    changed = [
        f"{name} {before.get(name, '-')} -> {value}"
        for name, value in after.items()
        if before.get(name) != value
    ]
    text = ", ".join(changed) or "no other choice"
    remark("apply-tuning", function, f"changes from the default: {text}")


def remark_slow(
    function: FuncOp,
    sequence: SequenceOp,
    rules: Iterable[AnyRule],
    estimate: Estimate | None,
) -> None:
    """Remark on a kernel that is estimated to be far below its target's limits.

    Remark also if a graph pass chose a form of an operator that the rule does not implement.
    """
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
        remark(by, function, f"the graph relied on a rule for {form}: {why}", slow=True)


def remark_unscheduled(function: FuncOp) -> None:
    """Remark on a function that every rule of the target declined."""
    remark("schedule", function, "no rule of the target schedules it", slow=True)


def forms_of(function: FuncOp) -> Sequence[str]:
    """Return the forms of the operators in a function."""
    named = function.attributes.get(COUNTS_ON_ATTRIBUTE)
    if not isa(named, ArrayAttr[StringAttr]):
        return ()
    return [form.data for form in named]


def _declined(sequence: SequenceOp) -> dict[str, str]:
    declined = sequence.attributes.get("declined")
    if not isinstance(declined, DictionaryAttr):
        return {}
    return {n: r.data for n, r in declined.data.items() if isinstance(r, StringAttr)}
