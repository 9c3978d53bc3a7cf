"""The choice of a rule, as recorded in its schedule.

    sched.sequence @f_schedule for @f attributes {
        rule = "cpu-matmul", choice = {rows = 6, vectors = 2, order = "rows outside"}} {...}

The steps contain plain numbers that follow from the choice. To change the choice, ask the rule for
another schedule (`find_schedule` with `rule` and `choice`).
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute

from tcopt.dialects.sched import KnobOp, SequenceOp

CHOICE = "choice"
"""Name of the attribute of a sequence that holds the choice."""


def choice_attribute(words: Mapping[str, int | str]) -> DictionaryAttr:
    """Return a choice as an attribute."""
    attributes: dict[str, Attribute] = {}
    for name, word in words.items():
        attributes[name] = StringAttr(word) if isinstance(word, str) else IntegerAttr(word, i64)
    return DictionaryAttr(attributes)


def recorded_choice(sequence: SequenceOp) -> dict[str, int | str]:
    """Return the choice recorded in a sequence; empty if its rule has no knobs."""
    attribute = sequence.attributes.get(CHOICE)
    found: dict[str, int | str] = {}
    for name, value in attribute.data.items() if isinstance(attribute, DictionaryAttr) else ():
        if isinstance(value, StringAttr):
            found[name] = value.data
        elif isinstance(value, IntegerAttr):
            found[name] = value.value.data
    return found


def knobs_of(sequence: SequenceOp) -> dict[str, int | str]:
    """Return the values of all knobs, of the rule and of a hand-written sequence."""
    found = recorded_choice(sequence)
    for op in sequence.body.walk():
        if isinstance(op, KnobOp):
            found[op.knob_name.data] = op.value.value.data
    return found
