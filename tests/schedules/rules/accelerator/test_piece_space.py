"""The space of `accelerator-contraction`, on an accelerator defined in one file."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, prod
from pathlib import Path

import numpy as np
import pytest

from checks.space_checks import assert_formulas_agree
from models.quantised_models import quantised
from tcopt.compiler.options import CompileOptions
from tcopt.dialects.target import AcceleratorFacts
from tcopt.schedules.passes.schedule import find_schedule
from tcopt.schedules.rules.accelerator.piece_space import PieceSpace
from tcopt.schedules.rules.rule import facts_of, rules_for
from tcopt.schedules.spaces.space import Point
from tcopt.support.registries.plugins import load_plugins, unload
from tcopt.tuner.arms import arms_in, lowered
from tcopt.tuner.tasks import tasks_of

EXAMPLE = Path(__file__).parents[4] / "examples" / "tile_accelerator.py"


@pytest.fixture(scope="module")
def plugin() -> Iterator[None]:
    load_plugins([EXAMPLE])
    yield
    unload(EXAMPLE)


@pytest.fixture(params=[(8, 16, 9, 3, 1), (64, 48, 11, 1, 2), (3, 24, 12, 5, 1)], ids=str)
def space(request: pytest.FixtureRequest, plugin: None) -> PieceSpace:
    inputs, outputs, size, kernel, stride = request.param
    model = quantised((inputs, outputs), size, kernel=kernel, stride=stride)
    task = next(
        task for task in tasks_of(model, CompileOptions(target="tile")) if task.kind == "tile"
    )
    (arm,) = arms_in(*lowered(task.text, task.phases))
    assert isinstance(arm.space, PieceSpace)
    return arm.space


def test_formulas_are_the_same_over_columns(space: PieceSpace) -> None:
    assert_formulas_agree(space)


def test_the_default_takes_the_fewest_cycles_with_each_operand_loaded_for_each_part(
    space: PieceSpace,
) -> None:
    """Explicit computation: transfer time next to compute time, for all sizes that fit with one or
    two slots."""
    found, facts, extents = space.found, space.facts, space.found.pattern.extents
    spatial = (*found.groups, *found.outputs, *found.pixels)

    def cycles(choice: dict[str, int]) -> float:
        sizes = space.pieces(Point(choice)).sizes
        data, weights = (found.entries(a, sizes) for a in (found.data, found.weights))
        sums = 4 * prod(sizes[v] for v in spatial) * extents[found.lane]
        moved = zip((data, weights, sums), ("data", "weights", "sums"), strict=True)
        memories = {name: facts.memories[getattr(space.names, name)] for name in vars(space.names)
                    if name in ("data", "weights", "sums")}  # fmt: skip
        for size, name in moved:
            room = memories[name].entries * memories[name].entry_bytes
            if size * choice["slots"] > room:
                return np.inf
        results = prod(ceil(extents[v] / sizes[v]) for v in spatial)
        steps = results * prod(ceil(extents[v] / sizes[v]) for v in found.depth)
        latency = facts.memory_port.latency
        loads = sum(facts.transfer_cycles(1, size) + latency for size in (data, weights))
        port = steps * loads + results * (facts.transfer_cycles(1, sums) + latency)
        unit = prod(extents) * space.unit.cycles // space.unit.products
        return max(port, unit) if choice["slots"] > 1 else port + unit

    default = space.default()
    assert (default["order"], default["data"], default["weights"]) == (0, 0, 0)
    assert default["slots"] <= 2
    usual = [
        {**space.choice(point), "order": 0, "data": 0, "weights": 0}
        for point in space.draw(200, np.random.default_rng(0))
    ]
    costs = [cycles(choice) for choice in usual if choice["slots"] <= 2]
    assert cycles(default) <= min(costs) < np.inf
    assert space.estimate(Point(default)) == cycles(default)


def test_operands_that_are_whole_are_loaded_less_often(space: PieceSpace) -> None:
    points = space.draw(500, np.random.default_rng(1))
    k = space.at(points)
    for name in ("data", "weights"):
        parts, whole = (Point({**vars(k), name: np.full(len(points), n)}) for n in (0, 1))
        both = space.valid(parts) & space.valid(whole)
        assert both.any() and (space.valid(parts) | ~space.valid(whole)).all()
        first = Point({**vars(whole), "slots": np.full(len(points), 1)})
        other = Point({**vars(parts), "slots": np.full(len(points), 1)})
        facts = space.facts
        assert isinstance(facts, AcceleratorFacts)
        # Each transfer of a row has a fixed cost, so fewer and longer ones are not slower.
        assert (space.estimate(first) <= space.estimate(other))[both].all()


def test_a_choice_names_what_is_not_usual(plugin: None) -> None:
    model = quantised((8, 16), 9)
    task = next(
        task for task in tasks_of(model, CompileOptions(target="tile")) if task.kind == "tile"
    )
    function, module = lowered(task.text, task.phases)
    facts = facts_of(module.attributes["tcopt.target"])
    space = arms_in(function, module)[0].space
    choice = {**space.default(), "order": 1, "data": 1, "slots": 1}
    assert space.is_valid(choice)
    schedule = find_schedule(
        function, rules_for("tile"), facts, rule="accelerator-contraction", choice=choice
    )
    assert schedule is not None
    told = str(schedule.sequence.attributes["choice"])
    assert 'order = "pixels outside"' in told and 'data = "whole"' in told
    assert "weights" not in told
