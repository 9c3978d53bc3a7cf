"""Convolutions with deep reductions: when and how they are divided."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from checks.cpu_kernels import AVX2, check_op, data, everything_parallel, scheduled
from tcopt.dialects.graph import ConstantOp
from tcopt.dialects.graph.core.types import like
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.schedules.rules.cpu import deep_reduction
from tcopt.schedules.rules.cpu.deep_reduction import in_parts, part_counts, plan_parts
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.support.machines.register_tiles import TileProblem

FACTS = CpuFacts.of(AVX2)
DEEP = TileProblem(
    rows=600, spans=1, columns=192, lanes=8, steps=5760, repeats=4, scalar_bytes=18 << 20
)


def _conv(*arrays: np.ndarray) -> BlockedConvOp:
    return BlockedConvOp(*(ConstantOp.weight("v", like(a)).results[0] for a in arrays))


def test_weights_of_a_part_stay_in_cache():
    plan, parts = plan_parts(DEEP, part_counts(DEEP, 240, 2400, FACTS), FACTS)
    panel = plan.tile.vectors * DEEP.lanes * DEEP.element_bytes * DEEP.steps
    assert parts > 1
    assert 240 % parts == 0
    assert panel / parts <= FACTS.l2 // deep_reduction.PART_SHARE
    assert plan.columns_outside
    assert in_parts(DEEP, parts).steps * parts == DEEP.steps


@pytest.mark.parametrize(
    ("problem", "rows"),
    [
        (replace(DEEP, steps=576), 2400),
        (replace(DEEP, is_dot=True), 2400),
        (DEEP, 4),
    ],
    ids=["shallow", "dot products", "few rows"],
)
def test_other_reductions_stay_whole(problem, rows):
    assert part_counts(problem, 240, rows, FACTS) == [1]


@pytest.mark.parametrize(("images", "blocks"), [(1, 5), (3, 1), (3, 5)])
def test_parts_and_chunks_compute_the_same(images, blocks):
    """Rows of 50 in chunks, several images and an odd number of output blocks."""
    x, w = data(images, 6, 2, 50, 8), data(blocks, 6, 2, 3, 8, 8)
    with (
        mock.patch.object(deep_reduction, "DEEP_SHARE", 1 << 40),
        mock.patch.object(deep_reduction, "PART_SHARE", FACTS.l2 >> 13),
        mock.patch.object(deep_reduction, "CHUNK_SHARE", 1 << 40),
        mock.patch.object(deep_reduction, "MIN_TILES", 4),
        everything_parallel(),
    ):
        check_op(BlockedConvOp, x, w, bits=256)
        module, rule = scheduled([x, w], _conv(x, w).tensor_expression, AVX2)
    assert rule == "cpu-contraction"
    assert "_rf" in str(module)
