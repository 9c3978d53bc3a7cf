"""Features of choices, computed from formulas alone."""

from __future__ import annotations

import numpy as np

from searches.tuner_spaces import ProductSpace
from tcopt.schedules.spaces.closed import Closed
from tcopt.tuner.features import NAMES, MachineFacts, SpaceFeatures

MACHINE = MachineFacts(cores=2, registers=32, vector_bytes=64, l1=32 << 10, l2=1 << 20, l3=32 << 20)


def _named(features: SpaceFeatures, choice: dict[str, int]) -> dict[str, float]:
    row = features(features.space.point(choice)[None])[0]
    return {name: float(2.0**value - 1) for name, value in zip(NAMES, row, strict=True)}


def test_columns_are_named_once_and_few() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert 64 <= len(NAMES) <= 96


def test_columns_say_what_a_tile_does() -> None:
    space = ProductSpace(192, 768, 768)
    choice = space.default() | {"rows": 6, "vectors": 4, "steps": 2, "chunk": 1, "panel": 1}
    named = _named(SpaceFeatures("rule", space, MACHINE), choice)
    expected = {
        "accumulators": 24,
        # A vector of the right operand for each of 4, and an element of the left for each of 6, for
        # each of two steps.
        "registers_left": 32 - 24 - 2 * (4 + 6),
        "iterations.tile": 6 * 64 * 2,
        "output.bytes.tile": 6 * 64 * 4,
        "first.bytes.inner": 6 * 768 * 4,
        "extent.vector": 16,
        "vector_share": 1,
        "tasks": 32,
        "tail_waste": 0,
        "multiply_adds_per_load": 48 / 20,
        "second.stride.last": 4,
        "second.stride.inner": 768 * 4,
        # The panel of the right operand fits in L2, and is loaded once for each tile.
        "second.traffic.l2": 192 / 6 * 768 * 768 * 4,
        "second.traffic.l3": 768 * 768 * 4,
        "rest.bytes.task": 0,
    }
    expected["registers_left"] = max(expected["registers_left"], 0)
    for name, value in expected.items():
        assert np.isclose(named[name], value, rtol=1e-3), (name, named[name], value)


def test_rounds_that_are_not_whole_are_waste() -> None:
    space = ProductSpace(197, 768, 768)
    named = _named(SpaceFeatures("rule", space, MACHINE), space.default() | {"rows": 8})
    assert np.isclose(named["tail_waste"], 200 / 197 - 1, rtol=1e-3)


def test_a_row_does_not_depend_on_its_neighbours(rng: np.random.Generator) -> None:
    space = ProductSpace(197, 770, 300, wide=True)
    features = SpaceFeatures("rule", space, MACHINE)
    points = space.draw(5000, rng)
    together = features(points)
    assert np.isfinite(together).all()
    assert together.dtype == np.float32
    for row in (0, 17, 4999):
        alone = SpaceFeatures("rule", space, MACHINE)(points[row : row + 1])[0]
        assert np.array_equal(together[row], alone)


def test_smaller_caches_hold_less() -> None:
    space = ProductSpace(197, 768, 768)
    small = MachineFacts(2, 32, 64, l1=4 << 10, l2=64 << 10, l3=1 << 20)
    point = space.point(space.default())[None]
    rows = [SpaceFeatures("rule", space, machine)(point)[0] for machine in (small, MACHINE)]
    column = NAMES.index("second.bytes.l2")
    assert rows[0][column] < rows[1][column]


def test_rules_are_told_apart() -> None:
    space = ProductSpace(64, 64, 64)
    point = space.point(space.default())[None]
    found = {
        tuple(SpaceFeatures(rule, space, MACHINE)(point)[0]) for rule in ("cpu-matmul", "winograd")
    }
    assert len(found) == 2


def test_a_space_without_knobs_has_a_row_as_well() -> None:
    row = SpaceFeatures("fallback", Closed(), MACHINE)(np.zeros((1, 0), np.int64))
    assert row.shape == (1, len(NAMES))
    assert np.isfinite(row).all()


def test_what_a_target_does_not_say_is_as_in_most() -> None:
    class Facts:
        cores = 80
        shared = 48 << 10

    machine = MachineFacts.of(Facts())
    assert (machine.cores, machine.l1) == (80, 48 << 10)
    assert machine.l2 > 0
