"""Sums of products on the matrix unit of an accelerator.

    for each piece of the output channels
      for each piece of the pixels                  or these two the other way round
        sums = 0                                    acc_register
        for each part of the sum
          load data and weights                     acc_input, acc_weight
          multiply and add
        store the sums

Data or weights are loaded further outside where that moves less. Pieces lie in several slots, so
that the next one is loaded while this one is computed with. Pieces are those that take the fewest
cycles on a model of the units and their port (`timing.py`).
"""

from __future__ import annotations

from dataclasses import replace
from heapq import nsmallest

from tcopt.dialects.graph.forms import CONTRACTION
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.schedules.analysis.patterns import match_block
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.rules.vdla.roles import Roles, Source, find_roles, multiplies_bytes
from tcopt.schedules.rules.vdla.tiles import Tile, candidate_tiles
from tcopt.schedules.rules.vdla.timing import Estimator
from tcopt.schedules.state.state import alloc_of, buffers_read
from tcopt.support.remarks import remark

_TIMED = 24
"""Tiles whose time is worked out: those that keep unit and port busy for the shortest time."""


@schedule_rule(target="vdla", priority=100)
class Contraction:
    """Rule for a sum of products of bytes."""

    name = "vdla-contraction"
    provides = (CONTRACTION,)

    def apply(self, sch: Schedule, facts: VdlaTargetAttr) -> Declined | None:
        found = [b for b in sch.blocks() if sch.block_op(b).is_reduction]
        pattern = match_block(sch.block_op(found[0])) if len(found) == 1 else None
        if pattern is None or not pattern.is_contraction or not multiplies_bytes(pattern):
            return Declined("there is not one sum of products of bytes in 32 bits")
        roles = find_roles(sch, pattern, facts)
        if isinstance(roles, Declined):
            return roles
        others = [b for b in sch.blocks() if b not in (found[0], roles.data.producer)]
        if others or alloc_of(pattern.store.buffer) is not None:
            return Declined("something else is computed from its results")
        if "i32" not in facts.stored_types:
            return Declined("results of 32 bits are not stored")
        tile = choose_tile(roles, facts)
        if tile is None:
            return Declined("no piece fits the accelerator's memories")
        schedule_tile(sch, found[0], roles, tile, facts)
        return None


def choose_tile(
    roles: Roles, facts: VdlaTargetAttr, *, serial: bool = False, threads: int = 1
) -> Tile | None:
    """The pieces that take the fewest cycles; None if none fits.

    Args:
        serial: with one slot each.
        threads: virtual threads, each with a slot of its own.
    """
    timer = Estimator(roles, facts)
    tiles = candidate_tiles(roles, facts)
    if serial:
        tiles = (replace(tile, slots=(1, 1, 1)) for tile in tiles)
    if threads > 1:
        tiles = (
            replace(tile, slots=(threads, threads, threads))
            for tile in tiles
            if min(tile.slots) >= threads and splits_into(roles, tile, threads)
        )
    near = nsmallest(_TIMED, tiles, key=timer.bound)
    found = min(near, key=timer.cycles, default=None)
    if found is None or threads == 1:
        return found
    return replace(found, slots=(1, 1, 1), threads=threads)


def thread_variable(roles: Roles, tile: Tile) -> int | None:
    """The variable whose pieces are virtual threads: output channels, if they are cut."""
    extents = roles.pattern.extents
    cut = (v for v in (*roles.outputs, *roles.pixels) if tile.sizes[v] < extents[v])
    return next(cut, None)


def splits_into(roles: Roles, tile: Tile, threads: int) -> bool:
    """Whether pieces can be virtual threads without a rest."""
    variable = thread_variable(roles, tile)
    if variable is None:
        return False
    pieces = -(-roles.pattern.extents[variable] // tile.sizes[variable])
    return pieces % threads == 0


def schedule_tile(
    sch: Schedule, block: Block, roles: Roles, tile: Tile, facts: VdlaTargetAttr
) -> None:
    """Cut a sum of products into pieces, and let the accelerator's instructions compute them."""
    remark("schedule", sch.block_op(block), f"pieces of {tile}")
    unit, lanes, inner = facts.unit
    store = sch.cache_write(block, "acc_register")
    loops = variable_loops(sch, block)
    outer: dict[int, Loop] = {}
    for v in (*roles.shared, *roles.outputs, *roles.pixels, roles.depth):
        if v is not None and v in loops:
            size = min(tile.sizes[v], sch.extent(loops[v]))
            outer[v], loops[v] = sch.split(loops[v], [None, size])
    first, second = roles.outputs, roles.pixels
    if not tile.outputs_outer:
        first, second = second, first
    pieces = [outer[v] for v in (*roles.shared, *first, *second) if v in outer]
    if not pieces:
        pieces = [sch.add_unit_loop(sch.get_loops(block)[0])]
    if tile.threads > 1:
        v = thread_variable(roles, tile)
        assert v is not None, "threads are pieces of some variable"
        thread = sch.split(outer[v], [None, tile.threads])
        pieces[pieces.index(outer[v])] = thread[0]
        outer[v] = thread[1]
        pieces.append(thread[1])
    parts = [outer[roles.depth]] if roles.depth in outer else []
    depth = [] if roles.depth is None else [roles.depth]
    unit_variables = (roles.lanes, roles.inner)
    order = (*roles.shared, *roles.outputs, *depth, *roles.taps, *roles.pixels, *unit_variables)
    sch.reorder(*pieces, *parts, *(loops[v] for v in order if v in loops))
    part = parts[0] if parts else loops[next(v for v in order[len(roles.shared) :] if v in loops)]
    if tile.threads > 1:
        sch.virtual_thread(pieces[-1])
    init = sch.decompose_reduction(block, part)
    sch.reverse_compute_at(store, pieces[-1])
    innermost = parts[0] if parts else pieces[-1]

    def place(whole: bool, variables: tuple[int, ...]) -> Loop:
        """The loop in which an operand that some variables move is loaded."""
        if not whole:
            return innermost
        moving = [outer[v] for v in (*roles.shared, *variables) if v in outer]
        return max(moving, key=pieces.index, default=pieces[0])

    data = _cached(sch, block, roles.data, "acc_input")
    sch.compute_at(data, place(tile.whole_data, roles.pixels))
    weights = _cached(sch, block, roles.weights, "acc_weight")
    sch.compute_at(weights, place(tile.whole_weights, roles.outputs))
    for each, slots in zip((data, weights, init), tile.slots, strict=True):
        if slots > 1:
            sch.double_buffer(each, slots)
    sch.tensorize(block, f"vdla_gemm_{unit}x{lanes}x{inner}")
    sch.tensorize(init, f"vdla_reset_{unit}x{lanes}")
    sch.tensorize(data, f"vdla_load_inp_{unit}x{inner}")
    sch.tensorize(weights, f"vdla_load_wgt_{lanes}x{inner}")
    sch.tensorize(store, f"vdla_store_acc_{unit}x{lanes}")


def _cached(sch: Schedule, block: Block, source: Source, scope: str) -> Block:
    """The block that loads an operand."""
    if source.producer is not None:
        sch.set_scope(source.producer, scope)
        return source.producer
    place = buffers_read(sch.block_op(block)).index(source.buffer)
    steps = list(source.strides) if any(n > 1 for n in source.strides) else None
    return sch.cache_read(block, place, scope, steps)
