"""Tiles chosen by the estimates: whole waves of blocks, and reads shared by lanes."""

from __future__ import annotations

from math import ceil, prod

import numpy as np
import onnx.parser
import pytest

import tcopt
from programs.gpu_programs import matmul
from tcopt.backends.named_gpus import named_gpu
from tcopt.runtime.device.program import DeviceProgram
from tcopt.runtime.device.steps import Launch
from tcopt.schedules import Schedule
from tcopt.schedules.analysis.patterns import BlockPattern
from tcopt.schedules.rules.gpu.facts import gpu_facts
from tcopt.schedules.rules.gpu.register_tile import only_contraction
from tcopt.schedules.rules.gpu.shared_tile import find_roles
from tcopt.schedules.rules.gpu.shared_tile_choice import SharedTile, choose_tile
from tcopt.schedules.rules.rule import Declined
from tcopt.support.machines.thread_blocks import ThreadBlocks

SM_80 = gpu_facts(named_gpu("sm_80"))


def chosen(m: int, n: int, depth: int, facts: ThreadBlocks = SM_80) -> SharedTile:
    pattern = only_contraction(Schedule(matmul(m, n, depth)))
    assert isinstance(pattern, BlockPattern)
    roles = find_roles(pattern, None, facts)
    assert not isinstance(roles, Declined)
    found = choose_tile(pattern, roles, facts)
    assert found is not None
    return found[0]


@pytest.mark.parametrize(
    ("m", "n", "depth"),
    [(1024, 1024, 1024), (128, 3072, 768), (128, 768, 768), (512, 1000, 2048), (197, 768, 768)],
)
def test_cores_are_busy_to_the_end(m: int, n: int, depth: int) -> None:
    """112 blocks on 108 multiprocessors would take as long as 216."""
    tile = chosen(m, n, depth)
    blocks = ceil(m / (tile.rows * tile.down)) * ceil(n / (tile.columns * tile.across))
    useful = m * n / (SM_80.cores * SM_80.rounds(blocks))
    assert useful / (tile.rows * tile.down * tile.columns * tile.across) >= 0.75
    # Adjacent pairs of threads read the same address of shared memory.
    assert tile.across & (tile.across - 1) == 0


def test_rounds_and_blocks_at_a_time() -> None:
    assert [SM_80.rounds(n) for n in (1, 108, 109, 216)] == [1, 1, 2, 2]
    # Limited by threads, registers and shared memory, and by the number of blocks.
    assert SM_80.resident(108, 256, 64, 1 << 10) == 1
    assert SM_80.resident(1000, 256, 32, 1 << 10) == 3
    assert SM_80.resident(1000, 256, 8, 48 << 10) == 3
    assert SM_80.resident(1000, 1024, 255, 48 << 10) == 1


def test_a_matrix_times_a_vector_is_shared_by_all_cores(rng: np.random.Generator) -> None:
    """A network's final classifier: few columns, long sums, and a bias."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        f (float[1, 2048] x, float[2048, 1000] w, float[1000] b) => (float[1, 1000] y) {
          m = MatMul (x, w) s = Add (m, b) y = Relu (s) }""")
    program = tcopt.compile(model, "cuda:sm_80").program
    assert isinstance(program, DeviceProgram)
    grids = [(prod(s.grid), prod(s.block)) for s in program.steps if isinstance(s, Launch)]
    assert grids == [(125, 256)]


def test_copies_have_no_branch_for_a_load() -> None:
    """For a padded image and weights that do not fill whole tiles, loads have no guards."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        f (float[1, 100, 13, 13] x, float[70, 100, 3, 3] w) => (float[1, 70, 13, 13] y) {
          y = Conv <pads = [1, 1, 1, 1]> (x, w) }""")
    program = tcopt.compile(model, "cuda:sm_80").program
    assert isinstance(program, DeviceProgram)
    # A launch that adds the parts of sums has a guard around all of its work.
    (tiles,) = (k for k in program.source.split(".visible .entry") if "st.shared" in k)
    lines = [line.split() for line in tiles.splitlines()]
    under = ""
    for words in filter(None, lines):
        if words[0].startswith("$L") or words[0] == "bra.uni":
            under = ""
        elif words[0].startswith("@%p"):
            under = words[0]
        assert not (under and words[0].startswith("ld.global")), words
    assert any(words[0].startswith("ld.global") for words in filter(None, lines))
