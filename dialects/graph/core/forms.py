"""Forms of operators that a pass chooses because a schedule rule implements them.

A form has a name, such as `winograd`. An op in such a form names it (`COUNTS_ON`), its function
records the name (`COUNTS_ON_ATTRIBUTE`), and the pass `schedule` checks that a rule which provides
the form has scheduled the function. A pass calls `form_declined` before it chooses a form. The
rules of the target, user-defined ones included, thus decide, and no form is chosen that no rule
implements.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Attribute, Operation

from tcopt.support.registries.registration import Registry

WINOGRAD = "winograd"
"""Transforms by constant tables around a contraction for each position of a tile."""

CONTRACTION = "contraction"
"""Contractions whose weights are packed for register tiles."""

ATTENTION = "attention"
"""Two contractions with operators on whole rows between, computed for a few rows at a time."""

COUNTS_ON_ATTRIBUTE = "tcopt.counts_on"
"""Attribute of a function that lists the forms of its operators."""

Answer = Callable[[str, Operation, Attribute | None], str | None]

_ANSWERS: Registry[str, Answer] = Registry("answer")


def answers_for_forms(answer: Answer) -> Answer:
    """Register the function that `form_declined` calls."""
    _ANSWERS["rules"] = answer
    return answer


def form_declined(form: str, op: Operation, target: Attribute | None) -> str | None:
    """Return why no schedule rule of a target implements an operator in a form; None if one does.

    Args:
        op: the operator before it is converted to the form.
        target: the target attribute.
    """
    return _ANSWERS["rules"](form, op, target)
