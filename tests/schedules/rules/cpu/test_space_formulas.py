"""Formulas of spaces: scalar and columnar evaluation agree; default choices."""

from __future__ import annotations

import numpy as np
import pytest

from checks.cpu_kernels import AVX2, te_module
from checks.space_checks import assert_formulas_agree
from programs.open_kernels import CASES
from tcopt.compiler import Phase, lower, pipeline
from tcopt.dialects.graph import ConstantOp
from tcopt.dialects.graph.core.types import like
from tcopt.dialects.loop import FuncOp
from tcopt.schedules.passes.schedule import spaces_of
from tcopt.schedules.rules.cpu.tile_space import COLUMNS_OUTSIDE, TileSpace
from tcopt.schedules.rules.cpu.winograd_space import WinogradSpace
from tcopt.schedules.rules.rule import AnyRule, facts_of, rules_for
from tcopt.schedules.spaces.footprints import footprint
from tcopt.schedules.spaces.space import Operand, Point, Space
from tcopt.support.machines.register_tiles import candidate_tiles, estimate

_LOOP = next(phase for phase in pipeline() if phase.name == "loop")
FACTS = facts_of(AVX2)


def spaces(case: str) -> list[tuple[AnyRule, Space]]:
    """The spaces of rules, including templates, for a case."""
    make, *arrays = CASES[case]()
    op = make(*(ConstantOp.weight("v", like(array)).results[0] for array in arrays))
    module = te_module(arrays, op.tensor_expression, AVX2)
    lower(module, [Phase("te", "te-inline"), _LOOP])
    (function,) = (each for each in module.ops if isinstance(each, FuncOp))
    return spaces_of(function, rules_for("cpu", templates=True), FACTS)


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("case", CASES)
def test_formulas_give_for_columns_what_they_give_for_numbers(case):
    """Random points, all at once and one by one; the default can be applied."""
    for rule, space in spaces(case):
        default = space.default()
        space.check(default)
        assert space.is_valid(default), rule.name
        assert space.from_words(space.words(default)) == default
        assert_formulas_agree(space)


@pytest.mark.parametrize("case", CASES)
def test_loops_of_a_nest_cover_each_variable(case):
    """The product of a variable's loop extents is at least its extent."""
    for rule, space in spaces(case):
        levels = space.nest(Point(space.default()))
        reach: dict[int, int] = {}
        for level in levels:
            reach[level.variable] = reach.get(level.variable, 1) * level.extent
        pattern = getattr(space, "pattern", None)
        if pattern is not None and levels:
            for variable, extent in enumerate(pattern.extents):
                assert reach.get(variable, 1) >= extent, (rule.name, variable)


@pytest.mark.parametrize("case", ["conv", "pointwise", "pool"])
def test_the_default_tile_has_the_least_estimate(case):
    """Enumerate all tiles; ties prefer more accumulators, then more rows, then fewer spans."""
    tested = 0
    for _, space in spaces(case):
        if not isinstance(space, TileSpace):
            continue
        found = [
            (round(estimate(space.problem, tile, outside, FACTS)), tile, outside)
            for tile in candidate_tiles(space.problem, FACTS)
            for outside in (True, False)
        ]
        _, tile, outside = min(
            found, key=lambda each: (each[0], -each[1].accumulators, -each[1].rows, each[1].spans)
        )
        default = space.default()
        assert (default["rows"], default["vectors"], default["spans"]) == (
            tile.rows,
            tile.vectors,
            tile.spans,
        )
        assert (default["order"] == COLUMNS_OUTSIDE) == outside
        tested += 1
    assert tested


@pytest.mark.parametrize(
    ("case", "lines"),
    [
        # Eight channels of a pixel are half a cache line; with stride 2, no two pixels share a
        # line.
        ("pointwise", 2 * 2 * 4 * 4),
        # Overlapping windows read the whole line.
        ("conv", 2 * 7 * 9 / 2),
    ],
)
def test_what_rows_broadcast_are_the_lines_that_are_read(case: str, lines: float):
    found = {each.problem.scalar_bytes for _, each in spaces(case) if isinstance(each, TileSpace)}
    assert found == {64 * lines}


def test_the_default_plan_of_a_transformed_convolution_is_hardly_beaten():
    """The default's estimate exceeds the minimum by no more than tiles of two heights could
    gain."""
    (space,) = (each for _, each in spaces("winograd") if isinstance(each, WinogradSpace))
    points = (
        space.points(range(space.size))
        if space.size < 1 << 18
        else space.draw(1 << 16, np.random.default_rng(0))
    )
    k = space.at(points)
    least = space.estimate(k)[space.valid(k)].min()
    assert space.estimate(Point(space.default())) <= 1.06 * least


def test_what_a_part_of_a_nest_touches():
    """Windows overlap: three taps of eight outputs read ten elements of one row."""
    image = Operand((4, 20), 4, ((1, 0), (0, 1), (0, 1)), is_output=False)
    assert footprint(image, {1: 8, 2: 3}) == 40
    assert footprint(image, {0: 2, 1: 8, 2: 3}) == 80
    assert footprint(image, {1: np.array([1, 100])}).tolist() == [4, 80]
