"""Footprints of loop nests at each level, compared with counting."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tcopt.schedules.spaces.space import LoopLevel, NestKind, Operand
from tcopt.tuner.footprints import behind, extent_of, measure_nest, strides, suffix


def _count(levels: list[LoopLevel], operand: Operand, start: int) -> int:
    """Count the elements accessed by the loops from `start` inwards."""
    inner = levels[start:]
    steps_of = [0] * len(levels)
    done = [1] * 8
    for number in reversed(range(len(levels))):
        steps_of[number] = done[levels[number].variable]
        done[levels[number].variable] *= levels[number].extent
    touched = set()
    for places in product(*(range(level.extent) for level in inner)):
        values = [0] * len(operand.steps)
        for number, (place, level) in enumerate(zip(places, inner, strict=True), start):
            values[level.variable] += place * steps_of[number]
        index = tuple(
            sum(v * operand.steps[n][d] for n, v in enumerate(values))
            for d in range(len(operand.shape))
        )
        if all(i < extent for i, extent in zip(index, operand.shape, strict=True)):
            touched.add(index)
    return len(touched)


_LEVELS = st.lists(
    st.builds(LoopLevel, st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=5
)


@given(_LEVELS)
def test_what_is_touched_is_counted(levels: list[LoopLevel]) -> None:
    sizes = [1, 1, 1]
    for level in levels:
        sizes[level.variable] *= level.extent
    rows = Operand((sizes[0], sizes[2]), 4, ((1, 0), (0, 0), (0, 1)), is_output=False)
    window = Operand((sizes[0] + sizes[1] - 1,), 4, ((1,), (1,), (0,)), is_output=False)
    nest = measure_nest(levels, [rows, window], 1)
    for start in range(len(levels) + 1):
        assert nest.elements[0][start, 0] == _count(levels, rows, start)
        # The bounding box of a window has all its elements, and no unreachable ones.
        assert nest.elements[1][start, 0] >= _count(levels, window, start)
        assert nest.elements[1][start, 0] <= window.shape[0]
    assert nest.iterations[0, 0] == np.prod(sizes)


def test_choices_may_differ_in_the_order_of_loops() -> None:
    operand = Operand((8, 4), 4, ((1, 0), (0, 1)), is_output=False)
    order = np.asarray([0, 1])
    first = np.where(order == 0, 8, 4)
    both = measure_nest([LoopLevel(order, first), LoopLevel(1 - order, 32 // first)], [operand], 2)
    for number, levels in enumerate(
        ([LoopLevel(0, 8), LoopLevel(1, 4)], [LoopLevel(1, 4), LoopLevel(0, 8)])
    ):
        alone = measure_nest(levels, [operand], 1)
        assert both.elements[0][:, number].tolist() == alone.elements[0][:, 0].tolist()
        assert both.lines[0][:, number].tolist() == alone.lines[0][:, 0].tolist()


def test_short_rows_share_cache_lines() -> None:
    operand = Operand((64, 4), 4, ((1, 0), (0, 1)), is_output=False)
    nest = measure_nest([LoopLevel(0, 64), LoopLevel(1, 4)], [operand], 1)
    assert nest.lines[0][:, 0].tolist() == [16.0, 0.25, 0.25]


def test_a_column_of_a_matrix_takes_a_line_for_each_element() -> None:
    operand = Operand((64, 64), 4, ((1, 0), (0, 1)), is_output=False)
    nest = measure_nest([LoopLevel(1, 4), LoopLevel(0, 64)], [operand], 1)
    assert nest.lines[0][1, 0] == 64
    assert strides(operand, 3).tolist() == [256.0, 4.0, 0.0]


def test_levels_are_found_by_kind() -> None:
    kinds = np.asarray([[1, 1], [0, 1], [2, 0], [3, 3]])
    spread = kinds == NestKind.PARALLEL
    assert behind(spread).tolist() == [1, 2]
    assert suffix((kinds == NestKind.UNROLLED) | (kinds == NestKind.VECTOR)).tolist() == [2, 3]


def test_extents_multiply_by_kind() -> None:
    levels = [LoopLevel(0, 4, NestKind.PARALLEL), LoopLevel(1, 3, NestKind.PARALLEL)]
    nest = measure_nest([*levels, LoopLevel(0, 2, NestKind.UNROLLED)], [], 1)
    assert extent_of(nest, NestKind.PARALLEL).tolist() == [12]
    assert extent_of(nest, NestKind.VECTOR).tolist() == [1]
