"""Template for any operator, used by schedule search: tiles of four levels.

    for each outer tile                            parallel, some of the loops
      for each tile                                results and producers may be computed here
        for each part of the sum                   producers may be computed here
          for each smaller tile
            for each term of the part              unrolled, as far as chosen
              for each element of it               innermost loop vectorised

The most expensive block is tiled. Producers that compute only for it may be computed inside its
loops, and so may its epilogue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcopt.schedules.analysis.patterns import match_block
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.fallback import parallelize_spatial
from tcopt.schedules.rules.cpu.generic_space import (
    AT_INNER,
    AT_OUTER,
    AT_ROOT,
    REGISTERS,
    SPATIAL_LEVELS,
    GenericSpace,
)
from tcopt.schedules.rules.cpu.granularity import run_parallel
from tcopt.schedules.rules.cpu.injective import schedule_injective
from tcopt.schedules.rules.epilogue import take_epilogue
from tcopt.schedules.rules.heaviest import heaviest
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.spaces.space import Choice


@schedule_rule(target="cpu", priority=-100)
class Generic:
    """Rule for any function with a block that stores once, asked only by a schedule search."""

    name = "cpu-generic"
    template = True

    def space(self, sch: Schedule, facts: CpuFacts) -> GenericSpace | Declined:
        pattern = heaviest(sch)
        if pattern is None:
            return Declined("no block stores once in a loop of its own")
        block = sch.get_block(pattern.block.block_name.data)
        own = [p for p in sch.producers(block) if sch.consumers(p) == [block]]
        made = [p for p in own if not sch.block_op(p).is_reduction and not sch.producers(p)]
        return GenericSpace(sch, pattern, made, facts)

    def apply(
        self, sch: Schedule, facts: CpuFacts, space: GenericSpace, choice: Choice
    ) -> Declined | None:
        block = sch.get_block(space.pattern.block.block_name.data)
        epilogue = take_epilogue(sch, block) if space.reduce else None
        nest = _tile(sch, block, space, choice)
        outer = run_parallel(sch, nest.outer, choice["parallel"], space.time, facts)
        nest = TiledLoops(outer, nest.middle, nest.sum, nest.inner, nest.lane)
        init = None
        if nest.sum:
            init = sch.decompose_reduction(block, nest.sum[0])
        if nest.sum and choice["sums"] == REGISTERS:
            sch.set_scope(block, "register")
        _write_out(sch, block, space, nest, choice)
        if init is not None:
            _write_out_start(sch, init, nest, choice)
        if epilogue is not None:
            at = nest.outer if choice["epilogue"] == AT_OUTER else nest.middle
            sch.reverse_compute_at(epilogue, at[-1])
            _vectorize_last(sch, epilogue, at[-1], space.lanes)
        done = {block, epilogue, init}
        for each in space.producers:
            place = choice[f"{each.name}.at"]
            if place != AT_ROOT:
                loops = {AT_OUTER: nest.outer, AT_INNER: nest.middle}.get(place, nest.sum)
                sch.compute_at(each, loops[-1])
                _vectorize_last(sch, each, loops[-1], space.lanes)
                done.add(each)
        for each in sch.blocks():
            if each in done:
                continue
            if sch.block_op(each).is_reduction:
                parallelize_spatial(sch, each, facts)
            else:
                schedule_injective(sch, each, facts)
        return None


@dataclass(frozen=True)
class TiledLoops:
    """The loops of a tiled block, outermost first.

    Attributes:
        outer, middle: the first two levels of spatial loops.
        sum: the first level of reduce loops.
        inner: the loops inside of these, except the vector loop.
        lane: the vector loop.
    """

    outer: list[Loop]
    middle: list[Loop]
    sum: list[Loop]
    inner: list[Loop]
    lane: Loop


def _tile(sch: Schedule, block: Block, space: GenericSpace, choice: Choice) -> TiledLoops:
    """Split all loops of a block, and reorder them by level."""
    loops = variable_loops(sch, block)
    levels: dict[int, list[Loop]] = {}
    for v in space.spatial:
        sizes = [choice[f"s{v}.{level}"] for level in range(1, SPATIAL_LEVELS)]
        levels[v] = sch.split(loops[v], [None, *sizes])
    for v in space.reduce:
        levels[v] = sch.split(loops[v], [None, choice[f"r{v}"]])
    order = space.outer_order(choice)
    outer, middle = ([levels[v][level] for v in order] for level in (0, 1))
    sums, terms = ([levels[v][level] for v in space.reduce] for level in (0, 1))
    last = {v: levels[v][-1] for v in space.spatial}
    lane = last.pop(choice["vector"])
    inner = [*(levels[v][2] for v in space.spatial), *terms, *last.values()]
    sch.reorder(*outer, *middle, *sums, *inner, lane)
    return TiledLoops(outer, middle, sums, inner, lane)


def _write_out(
    sch: Schedule, block: Block, space: GenericSpace, nest: TiledLoops, choice: Choice
) -> None:
    """Vectorise and unroll the inner loops of a block."""
    sch.vectorize(nest.lane)
    count = len(nest.inner) - choice["unroll"]
    in_registers = bool(nest.sum) and choice["sums"] == REGISTERS
    third = len(space.spatial)
    for number, each in enumerate(nest.inner):
        is_term = third <= number < third + len(space.reduce)
        if number >= count or (in_registers and not is_term):
            sch.unroll(each)
    del block


def _write_out_start(sch: Schedule, init: Block, nest: TiledLoops, choice: Choice) -> None:
    """Vectorise the initialisation of sums; unroll it if the sums are in registers."""
    loops = sch.get_loops(init)
    own = loops[loops.index(nest.middle[-1]) + 1 :]
    if not own:
        return
    sch.vectorize(own[-1])
    if choice["sums"] == REGISTERS:
        for each in own[:-1]:
            sch.unroll(each)


def _vectorize_last(sch: Schedule, block: Block, around: Loop, lanes: int) -> None:
    """Vectorise the last loop of a block inside of another loop."""
    loops: Sequence[Loop] = sch.get_loops(block)
    own = loops[loops.index(around) + 1 :]
    pattern = match_block(sch.block_op(block))
    if not own or pattern is None or not pattern.store.is_unit(pattern.spatial[-1]):
        return
    last = own[-1]
    if sch.extent(last) > lanes:
        _, last = sch.split(last, [None, lanes])
    if sch.extent(last) > 1:
        sch.vectorize(last)
