"""Forms of operators that a pass chooses because a schedule rule carries them out.

A form has a name, such as `winograd`. An op in such a form names it (`COUNTS_ON`), its function
keeps the name (`COUNTS_ON_ATTRIBUTE`), and the pass `schedule` sees whether a rule that provides
the form has taken the function. A pass asks `form_declined` before it chooses, so that the rules
of the target decide, those of users among them, and nothing is chosen that none carries out.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from xdsl.ir import Attribute, Operation

from tcopt.support.registration import Registry

WINOGRAD = "winograd"
"""Transforms by constant tables around a contraction for each place of a tile."""

CONTRACTION = "contraction"
"""Sums of products whose weights are stored for register tiles."""

COUNTS_ON_ATTRIBUTE = "tcopt.counts_on"
"""The attribute of a function that names the forms of its operators."""

Answer = Callable[[str, Operation, Attribute | None], str | None]

_ANSWERS: Registry[str, Answer] = Registry(
    "answer", lambda: importlib.import_module("tcopt.schedules.rules.rule")
)


def answers_for_forms(answer: Answer) -> Answer:
    """Register what knows the rules: `form_declined` asks it."""
    _ANSWERS["rules"] = answer
    return answer


def form_declined(form: str, op: Operation, target: Attribute | None) -> str | None:
    """Why no schedule rule of a target would carry out an operator in a form; None if one would.

    Args:
        op: the operator as it is now, before it is given the form.
        target: the attribute of the target.
    """
    return _ANSWERS["rules"](form, op, target)
