"""Results are the same for every point of a rule's space."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.cpu_kernels import check_op, everything_parallel
from programs.open_kernels import CASES
from running.examples import examples
from tcopt.schedules.rules.rule import AnyRule
from tcopt.schedules.spaces.space import Choice, Space

FEW = settings(max_examples=examples(4), deadline=None, suppress_health_check=[*HealthCheck])


def at_random(rng: np.random.Generator, taken: list[tuple[str, Choice]]):
    """Chooser that selects a random rule and a random valid point, and records them."""

    def choose(found: list[tuple[AnyRule, Space]]) -> tuple[str, Choice]:
        rule, space = found[rng.integers(len(found))]
        for point in space.draw(3000, rng):
            choice = space.choice(point)
            if space.is_valid(choice):
                break
        else:
            choice = space.default()
        taken.append((rule.name, choice))
        return rule.name, choice

    return choose


@pytest.mark.nightly(every=12)
@pytest.mark.parametrize("case", CASES)
@FEW
@given(seed=st.integers(0, 1 << 32), parallel=st.booleans())
def test_no_choice_changes_a_result(case, seed, parallel):
    """Random points of random rules, against numpy with guards around all buffers."""
    make, *arrays = CASES[case]()
    taken: list[tuple[str, Choice]] = []
    with everything_parallel(parallel):
        choose = at_random(np.random.default_rng(seed), taken)
        try:
            check_op(make, *arrays, bits=256, choose=choose)
        except Exception as error:
            error.add_note(f"chosen: {taken}")
            raise
