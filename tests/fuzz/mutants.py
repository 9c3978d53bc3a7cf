"""Mutants by number: the same text for a number in every run of a seed."""

from __future__ import annotations

import random
from functools import cache

from fuzz.corpus import lit_cases
from fuzz.mutations import mutate
from fuzz.text_checks import MEANT, Hang, time_limit
from tcopt.support.pipelines.running import new_context
from tcopt.tools.passes.driver import InputText, PrintOptions, print_module

_GENERIC_SHARE = 0.4
_SECONDS = 20.0


@cache
def cases() -> tuple[str, ...]:
    """Return the texts to mutate."""
    return tuple(lit_cases())


@cache
def generic_form(case: int) -> str:
    """Return a text in generic form, or unchanged if it does not parse."""
    text = cases()[case]
    try:
        with time_limit(_SECONDS):
            module = InputText("case.mlir", text.encode(), "mlir").parse(new_context())
            return print_module(module, PrintOptions(generic=True))
    except (*MEANT, Hang):
        return text


def mutant(seed: int, number: int) -> str:
    """Return a mutant by its number."""
    rng = random.Random(f"{seed}:{number}")
    case = rng.randrange(len(cases()))
    text = generic_form(case) if rng.random() < _GENERIC_SHARE else cases()[case]
    return mutate(rng, text, cases())
