"""The choice of register tiles: properties that hold for every shape, and good choices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcopt.schedules.cpu.facts import CpuFacts
from tcopt.schedules.cpu.tiles import Space, Tile, candidate_tiles, even_parts, plan_tile

AVX512 = CpuFacts(512, 32, 2, 32 << 10, 1 << 20)
AVX2 = CpuFacts(256, 16, 2, 32 << 10, 256 << 10)


@given(st.integers(1, 300), st.integers(1, 30))
def test_parts_cover_an_extent_almost_evenly(extent: int, most: int):
    for size in even_parts(extent, most):
        parts = -(-extent // size)
        last = extent - (parts - 1) * size
        assert 1 <= size <= most
        assert 0 <= size - last < parts


@given(*[st.integers(1, 40)] * 3, st.sampled_from([AVX512, AVX2]))
def test_tiles_fit_the_registers(rows: int, spans: int, blocks: int, facts: CpuFacts):
    space = Space(rows, spans, blocks * facts.lanes(), facts.lanes(), 64, scalar_bytes=4096)
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
    space = Space(
        rows,
        spans,
        channels,
        facts.lanes(),
        steps,
        scalar_bytes=rows * spans * 128 * 4,
        vector_bytes=steps * channels * 4,
    )
    assert plan_tile(space, facts).tile == expected
