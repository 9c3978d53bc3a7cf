"""What a written schedule says about itself, as remarks."""

from __future__ import annotations

from xdsl.dialects.builtin import DictionaryAttr, StringAttr

from tcopt.dialects.loop import FuncOp
from tcopt.dialects.sched import BindOp, KnobOp, ParallelOp, SequenceOp, VectorizeOp
from tcopt.support.remarks import remark

SCHEDULED = "scheduled"
"""How the remark of the rule that wrote a schedule begins."""


def remark_schedule(function: FuncOp, sequence: SequenceOp) -> None:
    """Remark on the rule and its knobs, the rules that declined, and what is left out."""
    rule = sequence.attributes.get("rule")
    by = rule.data if isinstance(rule, StringAttr) else "schedule"
    ops = list(sequence.body.walk())
    knobs = [f"{op.knob_name.data} = {op.value.value.data}" for op in ops if isinstance(op, KnobOp)]
    remark(by, function, ", ".join([SCHEDULED, *knobs]))
    declined = sequence.attributes.get("declined")
    if isinstance(declined, DictionaryAttr):
        for name, reason in declined.data.items():
            if isinstance(reason, StringAttr):
                remark(name, function, reason.data, missed=True)
    if not any(isinstance(op, VectorizeOp) for op in ops):
        remark(by, function, "not vectorised", missed=True)
    if not any(isinstance(op, ParallelOp | BindOp) for op in ops):
        remark(by, function, "stays on one thread", missed=True)
