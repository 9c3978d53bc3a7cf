"""Pack the bits of adjacent values into words, all words of a group of values at once.

parallel over pixels
  for each group of values of a pixel
    one word for each bit, by one intrinsic
"""

from __future__ import annotations

from math import prod

from tcopt.dialects.intrinsics.bit_dots import MOST_PLANES, WORD
from tcopt.dialects.intrinsics.pack_bits import ELEMENTS, pack_bits_name
from tcopt.schedules.analysis.behaviours import behaviour_of, computes
from tcopt.schedules.analysis.patterns import BlockPattern, access_bits, match_block
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import parallelize
from tcopt.schedules.rules.rule import Declined, schedule_rule


@schedule_rule(target="cpu", priority=130)
class PackBits:
    """Rule for functions with a single block, which packs bits."""

    name = "cpu-pack-bits"
    closed = "an intrinsic fixes the loops that are not parallel"

    def apply(self, sch: Schedule, facts: CpuFacts) -> Declined | None:
        blocks = sch.blocks()
        if len(blocks) != 1:
            return Declined(f"{len(blocks)} blocks are not one that packs bits", quiet=True)
        (block,) = blocks
        pattern = match_block(sch.block_op(block))
        found = None if pattern is None else _intrinsic(sch, block, pattern)
        if pattern is None or found is None:
            return Declined("its block does not pack bits", quiet=True)
        name, inner = found
        loops = sch.get_loops(block)
        outer, tile = loops[:-inner], loops[-inner:]
        copy = sch.cache_write(block, "register")
        around = parallelize(sch, outer, 4 * pattern.work // WORD, facts)
        if around:
            sch.reverse_compute_at(copy, around[-1])
        sch.decompose_reduction(block, tile[0])
        sch.tensorize(block, name)
        sch.set_scope(block, "register")
        for each in blocks_of(sch):
            own = [loop for loop in sch.get_loops(each) if loop not in around]
            if own:
                sch.vectorize(own[-1])
        return None


def blocks_of(sch: Schedule) -> list[Block]:
    """Return the blocks with loops: those that initialise and copy words."""
    return [each for each in sch.blocks() if sch.get_loops(each)]


def _intrinsic(sch: Schedule, block: Block, pattern: BlockPattern) -> tuple[str, int] | None:
    """Return the intrinsic that a block computes, and the number of innermost loops it replaces."""
    if len(pattern.terms) != 1 or not pattern.reduce or not pattern.spatial:
        return None
    (term,) = pattern.terms
    own = [v for v in pattern.spatial if pattern.store.is_unit(v) and not term.uses(v)]
    bits = pattern.extents[own[-1]] if own else 1
    lanes = pattern.extents[pattern.reduce[-1]]
    blocks = prod(pattern.extents[v] for v in pattern.reduce[:-1])
    fits = bits <= MOST_PLANES and blocks * lanes <= WORD and lanes > 1
    if not fits or len(pattern.reduce) > 2 or access_bits(term) not in (8, 16):
        return None
    inner = 1 + (blocks > 1) + (bits > 1)
    loops = [sch.loop_op(each) for each in sch.get_loops(block)]
    if len(loops) < inner:
        return None
    for kind, element in enumerate(ELEMENTS):
        if not element.endswith(str(access_bits(term))):
            continue
        name = pack_bits_name(bits, blocks, lanes, kind)
        if computes(behaviour_of(name), sch.block_op(block), loops[-inner:]):
            return name, inner
    return None
