"""What a rule chose, as its schedule records it.

    sched.sequence @f_schedule for @f attributes {
        rule = "cpu-matmul", choice = {rows = 6, vectors = 2, order = "rows outside"}} {...}

The steps hold plain numbers that follow from the choice. Another choice is another schedule: it is
made by asking the rule again (`find_schedule` with `rule` and `choice`).
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute

from tcopt.dialects.sched import KnobOp, SequenceOp

CHOICE = "choice"
"""The attribute of a sequence."""


def choice_attribute(words: Mapping[str, int | str]) -> DictionaryAttr:
    """A choice as an attribute."""
    attributes: dict[str, Attribute] = {}
    for name, word in words.items():
        attributes[name] = StringAttr(word) if isinstance(word, str) else IntegerAttr(word, i64)
    return DictionaryAttr(attributes)


def recorded_choice(sequence: SequenceOp) -> dict[str, int | str]:
    """What a sequence records that its rule chose; empty if there was nothing to choose."""
    attribute = sequence.attributes.get(CHOICE)
    found: dict[str, int | str] = {}
    for name, value in attribute.data.items() if isinstance(attribute, DictionaryAttr) else ():
        if isinstance(value, StringAttr):
            found[name] = value.data
        elif isinstance(value, IntegerAttr):
            found[name] = value.value.data
    return found


def knobs_of(sequence: SequenceOp) -> dict[str, int | str]:
    """What was chosen: by a rule, or by the knobs of a sequence written by hand."""
    found = recorded_choice(sequence)
    for op in sequence.body.walk():
        if isinstance(op, KnobOp):
            found[op.knob_name.data] = op.value.value.data
    return found
