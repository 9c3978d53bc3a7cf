"""Memoised reachability equals a plain search and expands each node once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tcopt.support.arithmetic.reachability import Reaches

NODES = 12


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """Successors of each node, all of them greater than it."""
    return [
        draw(st.lists(st.integers(n + 1, NODES - 1), max_size=3)) if n < NODES - 1 else []
        for n in range(NODES)
    ]


def reached(successors: list[list[int]], start: int) -> set[int]:
    found = {start}
    for node in range(start, NODES):
        if node in found:
            found.update(successors[node])
    return found


@given(graphs(), st.sets(st.integers(0, NODES - 1)), st.permutations(range(NODES)))
def test_answers_are_those_of_a_search(successors, goals, starts) -> None:
    expanded: list[int] = []

    def expand(node: int) -> list[int] | None:
        expanded.append(node)
        return None if node in goals else successors[node]

    reaches = Reaches(expand)
    for start in starts:
        assert reaches(start) == bool(reached(successors, start) & goals)
    assert sorted(expanded) == sorted(set(expanded))


def test_long_chains_do_not_recurse() -> None:
    length = 5000
    reaches = Reaches[int](lambda n: [n + 1] if n < length else None)
    assert reaches(0)
    assert not Reaches[int](lambda n: [n + 1] if n < length else [])(0)
