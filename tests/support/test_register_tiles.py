"""The choice of register tiles: properties for every shape, and good choices."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.support.machines.register_tiles import (
    Tile,
    TileProblem,
    candidate_tiles,
    estimate,
    even_parts,
    plan_tile,
)

AVX512 = CpuFacts(vector_bits=512, registers=32, cores=2, l2=1 << 20)
AVX2 = CpuFacts(vector_bits=256, cores=2)


@given(st.integers(1, 300), st.integers(1, 30))
def test_parts_cover_an_extent_almost_evenly(extent: int, most: int):
    for size in even_parts(extent, most):
        parts = -(-extent // size)
        last = extent - (parts - 1) * size
        assert 1 <= size <= most
        assert 0 <= size - last < parts


@given(*[st.integers(1, 40)] * 3, st.sampled_from([AVX512, AVX2]))
def test_tiles_fit_the_registers(rows: int, spans: int, blocks: int, facts: CpuFacts):
    space = TileProblem(rows, spans, blocks * facts.lanes(), facts.lanes(), 64, scalar_bytes=4096)
    for tile in candidate_tiles(space, facts):
        assert tile.accumulators + tile.vectors < facts.registers


@pytest.mark.parametrize(
    ("facts", "rows", "spans", "expected"),
    [
        (AVX512, 56, 56, Tile(14, 2, 16)),
        (AVX512, 13, 13, Tile(13, 2, 16)),
        (AVX512, 27, 27, Tile(14, 2, 16)),
        (AVX512, 7, 7, Tile(7, 2, 16, spans=2)),
        (AVX2, 56, 56, Tile(6, 2, 8)),
    ],
)
def test_convolution_tiles(facts: CpuFacts, rows: int, spans: int, expected: Tile):
    steps, channels = 9 * 128, 128
    space = TileProblem(
        rows,
        spans,
        channels,
        facts.lanes(),
        steps,
        scalar_bytes=rows * spans * 128 * 4,
        vector_bytes=steps * channels * 4,
    )
    assert plan_tile(space, facts).tile == expected


@pytest.mark.parametrize("steps", [32, 64, 256])
def test_cores_that_multiply_in_halves_have_a_vector_for_each_broadcast(steps: int):
    # Measured on Zen 4: for 1x1 convolutions, tiles of 7 to 14 rows and one vector take 0.92 of the
    # time of 14 x 2 for a reduction of 32, and 0.99 for 256. Dot products do not gain.
    halves = replace(AVX512, fma_units=1)
    space = TileProblem(28, 28, 512, 16, steps, 1, 28 * 28 * steps * 4, steps * 512 * 4)
    tile = plan_tile(space, halves).tile
    assert tile.vectors == 1 and 7 <= tile.rows <= 14
    assert plan_tile(space, AVX512).tile.vectors > 1
    dots = replace(space, is_dot=True)
    assert plan_tile(dots, halves) == plan_tile(dots, AVX512)


@pytest.mark.parametrize("size", [14, 28, 56, 112])
@pytest.mark.parametrize("window", [9, 25])
def test_cores_that_multiply_in_halves_have_few_rows_of_own_operands(size: int, window: int):
    # Measured on Zen 4: depthwise convolutions with tiles of 7 or 8 rows are up to 1.16 times as
    # fast as with 14, and pools up to 1.6 times.
    space = TileProblem(size, size, 16, 16, window, 8)
    assert plan_tile(space, replace(AVX512, fma_units=1)).tile.rows in (7, 8)
    assert plan_tile(space, AVX512).tile.rows >= 12


def test_rows_that_share_nothing_come_after_vectors():
    # Max pooling with strided windows: 4 vectors of 2 rows take 0.8 of the time of 8 rows.
    space = TileProblem(56, 64, 56, 16, 9, 1)
    halves = replace(AVX512, fma_units=1)
    assert plan_tile(space, halves).tile == Tile(2, 4, 16)
    assert plan_tile(replace(space, slides=True), halves).tile == Tile(8, 1, 16)


@pytest.mark.parametrize("facts", [AVX512, replace(AVX512, fma_units=1), AVX2])
@pytest.mark.parametrize("size", [20, 28, 52, 56])
def test_rows_that_are_stored_apart_come_in_squares(facts: CpuFacts, size: int):
    # A remainder is stored lane by lane: 7 rows take 1.6 times as long as 8.
    space = TileProblem(size, size, facts.lanes(), facts.lanes(), 9, 8, square=4)
    rows = plan_tile(space, facts).tile.rows
    assert rows % 4 == 0 and rows >= 4


def test_whole_rows_that_are_stored_apart_follow_each_other():
    space = TileProblem(7, 7, 16, 16, 9, 8, square=4)
    assert plan_tile(space, replace(AVX512, fma_units=1)).tile == Tile(7, 1, 16, spans=2)


@pytest.mark.parametrize("channels", [(512, 2048), (2048, 512), (1024, 1024), (320, 1280)])
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("l1", [32 << 10, 48 << 10])
def test_a_broadcast_serves_several_products(channels: tuple[int, int], batch: int, l1: int):
    # A tile of 28 rows and one vector takes a load for each multiply-add, and its data does not
    # stay in L1: half the speed of tiles of 7 x 3 or 14 x 2 on Zen 5.
    inputs, outputs = channels
    space = TileProblem(
        7, 7, outputs, 16, inputs, batch, batch * 49 * inputs * 4, inputs * outputs * 4
    )
    tile = plan_tile(space, replace(AVX512, l1=l1)).tile
    assert tile.vectors >= 2
    assert tile.accumulators >= 16


@pytest.mark.parametrize(("size", "inputs", "outputs"), [(14, 512, 1024), (28, 256, 512)])
def test_few_rows_do_not_take_more_vectors_than_the_second_cache_delivers(
    size: int, inputs: int, outputs: int
):
    # 5 vectors for 2 rows take 1.2 times as long as 3 for 4 on Zen 4.
    scalars = size**2 * inputs * 4
    space = TileProblem(
        size, size, outputs, 8, inputs, scalar_bytes=scalars, vector_bytes=inputs * outputs * 4
    )
    wide, square = Tile(2, 5, 8), Tile(4, 3, 8)
    for columns_outside in (True, False):
        costs = [estimate(space, tile, columns_outside, AVX2) for tile in (wide, square)]
        assert costs[0] > costs[1]


@pytest.mark.parametrize("size", [9, 11, 13, 17, 19])
@pytest.mark.parametrize("steps", [128, 256, 9 * 128])
def test_odd_images_do_not_fill_registers_with_broadcasts(size: int, steps: int):
    # 13 rows of one vector spill with 16 registers, and took 1.5 times as long.
    space = TileProblem(size, size, 256, 8, steps, 1, size * size * 512, steps * 1024)
    assert plan_tile(space, AVX2).tile.vectors >= 2


def test_what_lanes_are_taken_of_has_registers():
    # LLVM loads the row data of several steps at once, and then spills accumulators.
    arm = CpuFacts(registers=32, cores=4, l1=64 << 10, l2=1 << 20, capabilities=frozenset({"neon"}))
    space = TileProblem(28, 28, 64, 4, 256, 1, 28 * 28 * 1024, 256 * 256)
    for tile in candidate_tiles(space, arm):
        assert tile.accumulators + tile.vectors + tile.rows * tile.spans + 2 <= arm.registers


def test_rows_that_see_nothing_cost_nothing():
    # Three taps 12 apart on a row of 16: each half of it sees the middle tap and part of another.
    whole = TileProblem(16, 1, 128, 16, 3 * 256, scalar_bytes=4096)
    some = replace(whole, seen=((12, 16), (0, 16), (0, 4)))
    tile = Tile(8, 2, 16)
    ratio = estimate(some, tile, True, AVX512) / estimate(whole, tile, True, AVX512)
    assert 0.5 < ratio < 0.65
