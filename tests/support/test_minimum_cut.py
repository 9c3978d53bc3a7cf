"""Minimum cuts compared with all cuts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from running.examples import examples
from tcopt.support.arithmetic.minimum_cut import FlowNetwork

NODES = 5


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1), st.integers(1, 9)),
        max_size=14,
    )
)
def test_no_cut_is_cheaper(edges) -> None:
    """Node 0 is the source, 1 the sink; ties go to the smallest set on the sink's side."""
    network = FlowNetwork()
    names = [network.source, network.sink, *(network.node(n) for n in range(2, NODES))]
    for start, end, capacity in edges:
        network.connect(names[start], names[end], capacity)

    def cost(side: frozenset[int]) -> int:
        return sum(c for a, b, c in edges if a not in side and b in side)

    others = range(2, NODES)
    choices = [
        frozenset({1, *(n for n in others if bits >> n & 1)}) for bits in range(0, 1 << NODES, 4)
    ]
    found = frozenset(names.index(node) for node in network.sink_side())
    least = min(map(cost, choices))
    assert cost(found) == least
    assert found == min((c for c in choices if cost(c) == least), key=len)
