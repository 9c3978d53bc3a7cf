"""Sizes in the description of a saved model."""

from __future__ import annotations

import numpy as np
import pytest

from tcopt.runtime.description import fixed_specs, sizes_facts, sizes_of, spec_facts
from tcopt.runtime.specs import TensorSpec
from tcopt.support.arithmetic.sizes import minimum, named_size, symbols_of
from tcopt.support.files.json_facts import FactError, Facts

N, M = named_size("batch size", 0, 64, 2), named_size("past + 1", 1, 8)
SYMBOLS = (*symbols_of(N), *symbols_of(M))
SPECS = [
    TensorSpec("x", (N, 3, M), np.dtype(np.float32)),
    TensorSpec("y", ((N + 5 * M) // 2, N * M, minimum(M, 4)), np.dtype(np.float32)),
]


def described(**changes):
    return Facts({"sizes": sizes_facts(SYMBOLS), "inputs": _inputs(), **changes})


def _inputs():
    return [spec_facts(spec, SYMBOLS) for spec in SPECS]


def test_sizes_with_any_names_are_restored():
    facts = described()
    symbols = sizes_of(facts)
    assert tuple(symbols) == SYMBOLS
    assert fixed_specs(facts, "inputs", symbols) == SPECS


def test_a_program_without_sizes_has_no_entry():
    assert sizes_of(Facts({})) == []


@pytest.mark.parametrize(
    "change",
    [{"low": -1}, {"high": 0}, {"high": 2**60}, {"multiple": 0}, {"low": 1}, {"multiple": 3}],
)
def test_malformed_ranges_are_refused(change):
    entries = sizes_facts(SYMBOLS)
    entries[0] |= change
    with pytest.raises(FactError):
        sizes_of(described(sizes=entries))


def test_a_name_is_not_repeated():
    with pytest.raises(FactError, match="duplicate"):
        sizes_of(described(sizes=sizes_facts([SYMBOLS[0], SYMBOLS[0]])))


@pytest.mark.parametrize(
    "extent",
    [
        {"size": "s2"},
        {"size": "s0 -"},
        {"size": "s0 - 70"},
        {"size": "s0 floordiv 0"},
        {"size": 3},
        {"size": "s0", "more": 1},
        {},
        "s0",
        None,
    ],
)
def test_malformed_extents_are_refused(extent):
    inputs = _inputs()
    inputs[0]["shape"][0] = extent
    facts = described(inputs=inputs)
    with pytest.raises(FactError):
        fixed_specs(facts, "inputs", sizes_of(facts))
