"""Random sequences of primitives: legal steps preserve results."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from programs.schedule_programs import PROGRAMS, check, run
from running.examples import examples
from tcopt.dialects.loop import FuncOp
from tcopt.schedules import Schedule
from tcopt.schedules.api.apply import apply_sequence
from tcopt.support.errors import ScheduleError


@cache
def original(program: str) -> tuple[FuncOp, np.ndarray]:
    """A program and its result."""
    function = PROGRAMS[program]()
    return function, run(function)


def step(data: st.DataObject, sch: Schedule) -> None:
    """Call one primitive on arguments drawn from the current function."""
    block = data.draw(st.sampled_from(sch.blocks()))
    every = [loop for b in sch.blocks() for loop in sch.get_loops(b)]
    mine = sch.get_loops(block)
    if not mine or not every:
        return
    loop = data.draw(st.sampled_from(every))
    own = data.draw(st.sampled_from(mine))
    factors = st.lists(st.sampled_from([None, 1, 2, 3, 4, 5, 8]), min_size=2, max_size=3)
    scope = data.draw(st.sampled_from(["global", "register", "shared"]))
    some = st.lists(st.sampled_from(mine), min_size=2, max_size=4, unique=True)
    calls = {
        "split": lambda: sch.split(own, data.draw(factors)),
        "fuse": lambda: sch.fuse(*mine[(at := mine.index(own)) : at + 2]),
        "reorder": lambda: sch.reorder(*data.draw(some)) if len(mine) > 1 else None,
        "add_unit_loop": lambda: sch.add_unit_loop(data.draw(st.sampled_from([own, block]))),
        "parallel": lambda: sch.parallel(own),
        "vectorize": lambda: sch.vectorize(mine[-1]),
        "unroll": lambda: sch.unroll(own),
        "bind": lambda: sch.bind(own, "threadIdx.x"),
        "virtual_thread": lambda: sch.virtual_thread(own),
        "compute_at": lambda: sch.compute_at(block, loop),
        "reverse_compute_at": lambda: sch.reverse_compute_at(block, loop),
        "compute_inline": lambda: sch.compute_inline(block),
        "reverse_compute_inline": lambda: sch.reverse_compute_inline(block),
        "decompose_reduction": lambda: sch.decompose_reduction(block, own),
        "rfactor": lambda: sch.rfactor(own, data.draw(st.integers(0, 1))),
        "cache_read": lambda: sch.cache_read(block, data.draw(st.integers(0, 1)), scope),
        "cache_write": lambda: sch.cache_write(block, scope),
        "set_scope": lambda: sch.set_scope(block, scope),
        "annotate": lambda: sch.annotate(own, "note", 3),
    }
    calls[data.draw(st.sampled_from(sorted(calls)))]()


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("program", sorted(PROGRAMS))
@settings(max_examples=examples(15), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_legal_sequences_keep_the_result(program: str, data: st.DataObject) -> None:
    """A primitive either reports why it does not apply, or preserves the program's results."""
    function, expected = original(program)
    sch = Schedule(function.clone())
    for _ in range(data.draw(st.integers(1, 12))):
        before = str(sch.func)
        try:
            step(data, sch)
        except ScheduleError:
            assert str(sch.func) == before, "a refused primitive edits nothing"
    check(sch.func, expected)
    replayed = function.clone()
    apply_sequence(sch.sequence, replayed)
    assert str(replayed) == str(sch.func)
