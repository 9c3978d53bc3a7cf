"""Contractions on the matrix unit of an accelerator.

    for each piece of the output channels
      for each piece of the pixels                  or these two in the other order
        sums = 0                                    acc_register
        for each part of the sum
          load data and weights                     acc_input, acc_weight
          multiply and add
        epilogue operations of the ALU, in place    acc_register
        store the sums, or their low bytes

Data or weights are loaded in an outer loop if that moves fewer bytes. Pieces have several slots, so
that the next piece is loaded while the current one is used. By default, pieces are chosen for the
fewest cycles on a model of the units and their port (`timing.py`); the rule's space
(`tile_space.py`) has the alternatives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tcopt.dialects.graph.forms import CONTRACTION
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.schedules.analysis.patterns import match_block
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.rules.vdla.epilogue import load_tables, move_steps
from tcopt.schedules.rules.vdla.roles import Roles, Source, find_roles, multiplies_bytes
from tcopt.schedules.rules.vdla.tile_space import TileSpace
from tcopt.schedules.rules.vdla.tiles import Tile
from tcopt.schedules.spaces.space import Choice, Point
from tcopt.schedules.state.state import buffers_read
from tcopt.support.remarks import remark


@schedule_rule(target="vdla", priority=100)
class Contraction:
    """Rule for a contraction of bytes."""

    name = "vdla-contraction"
    provides = (CONTRACTION,)

    def space(self, sch: Schedule, facts: VdlaTargetAttr) -> TileSpace | Declined:
        block = _sums(sch)
        if block is None:
            return Declined("there is not exactly one contraction of bytes with 32-bit sums")
        pattern = match_block(sch.block_op(block))
        assert pattern is not None
        if not pattern.has_own_buffers:
            return Declined("both operands are in one buffer")
        roles = find_roles(sch, pattern, facts)
        if isinstance(roles, Declined):
            return roles
        if not roles.epilogue.stores_bytes and "i32" not in facts.stored_types:
            return Declined("the accelerator does not store 32-bit results")
        space = TileSpace(roles, facts)
        return Declined("no piece fits the accelerator's memories") if space.is_empty else space

    def apply(
        self, sch: Schedule, facts: VdlaTargetAttr, space: TileSpace, choice: Choice
    ) -> Declined | None:
        block = _sums(sch)
        assert block is not None, "there is a space"
        schedule_tile(sch, block, space.roles, space.tile(Point(dict(choice))), facts)
        return None


def _sums(sch: Schedule) -> Block | None:
    """Return the block that sums products of bytes; None unless there is exactly one reduction."""
    found = [b for b in sch.blocks() if sch.block_op(b).is_reduction]
    pattern = match_block(sch.block_op(found[0])) if len(found) == 1 else None
    if pattern is None or not pattern.is_contraction or not multiplies_bytes(pattern):
        return None
    return found[0]


def choose_tile(
    roles: Roles, facts: VdlaTargetAttr, *, serial: bool = False, threads: int = 1
) -> Tile | None:
    """Return the pieces that take the fewest cycles; None if none fits.

    Args:
        serial: use one slot for each operand.
        threads: number of virtual threads, each with its own slot.
    """
    space = TileSpace(roles, facts)
    choice = space.shortest((1, 1, 1) if serial else None, threads)
    return space.tile(Point(choice)) if choice else None


def thread_variable(roles: Roles, tile: Tile) -> int | None:
    """Return the variable whose pieces become virtual threads: output channels, if split."""
    extents = roles.pattern.extents
    cut = (v for v in (*roles.outputs, *roles.pixels) if tile.sizes[v] < extents[v])
    return next(cut, None)


def schedule_tile(
    sch: Schedule, block: Block, roles: Roles, tile: Tile, facts: VdlaTargetAttr
) -> None:
    """Split a contraction into pieces, and compute them by the accelerator's instructions."""
    remark("schedule", sch.block_op(block), f"pieces of {tile}")
    steps = roles.epilogue.steps
    store = steps[-1].block if roles.epilogue.stores_bytes else None
    if store is None:
        store = sch.cache_write(steps[-1].block if steps else block, "acc_register")
    for each in (block, *(step.block for step in steps)):
        if steps and each != store:
            sch.set_scope(each, "acc_register")
    pieces = _cut(sch, block, roles, tile)
    init = sch.decompose_reduction(block, pieces.part)
    move_steps(sch, roles.epilogue, store, pieces.loops[-1])
    data = _cached(sch, block, roles.data, "acc_input")
    sch.compute_at(data, pieces.place(roles, roles.pixels, whole=tile.whole_data))
    weights = _cached(sch, block, roles.weights, "acc_weight")
    sch.compute_at(weights, pieces.place(roles, roles.outputs, whole=tile.whole_weights))
    tables = load_tables(sch, roles.epilogue)
    for table, layout in zip(tables, roles.epilogue.tables, strict=True):
        moving = tuple(v for v in (*roles.outputs, *roles.pixels) if any(layout.steps[v]))
        sch.compute_at(table, pieces.place(roles, moving, whole=True))
    for step in steps:
        if step.over is not None:
            sch.compute_in_place(step.block, step.over)
    for each, slots in zip((data, weights, init), tile.slots, strict=True):
        if slots > 1:
            sch.double_buffer(each, slots)
    unit, lanes, inner = facts.unit
    names = {
        block: f"vdla_gemm_{unit}x{lanes}x{inner}",
        init: f"vdla_reset_{unit}x{lanes}",
        data: f"vdla_load_inp_{unit}x{inner}",
        weights: f"vdla_load_wgt_{lanes}x{inner}",
        store: f"vdla_store_acc_{unit}x{lanes}",
        **dict.fromkeys(tables, f"vdla_load_acc_{unit}x{lanes}"),
        **{step.block: step.intrinsic for step in steps},
    }
    for each, name in names.items():
        sch.tensorize(each, name)


@dataclass(frozen=True)
class _Pieces:
    """The loops around the pieces of a contraction.

    Attributes:
        outer: loops over pieces, by variable.
        loops: loops over pieces of the results, outermost first.
        parts: loops over parts of the sum.
        part: the outermost loop of the reduction.
    """

    outer: Mapping[int, Loop]
    loops: Sequence[Loop]
    parts: Sequence[Loop]
    part: Loop

    def place(self, roles: Roles, variables: tuple[int, ...], *, whole: bool) -> Loop:
        """Return the loop in which an operand that depends on `variables` is loaded."""
        if not whole:
            return self.parts[0] if self.parts else self.loops[-1]
        moving = [self.outer[v] for v in (*roles.shared, *variables) if v in self.outer]
        return max(moving, key=self.loops.index, default=self.loops[0])


def _cut(sch: Schedule, block: Block, roles: Roles, tile: Tile) -> _Pieces:
    """Split and reorder the loops of a contraction."""
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
    if tile.threads > 1:
        sch.virtual_thread(pieces[-1])
    inside = [loops[v] for v in order[len(roles.shared) :] if v in loops]
    return _Pieces(outer, pieces, parts, (parts or inside)[0])


def _cached(sch: Schedule, block: Block, source: Source, scope: str) -> Block:
    """Return the block that loads an operand."""
    if source.producer is not None:
        sch.set_scope(source.producer, scope)
        return source.producer
    place = buffers_read(sch.block_op(block)).index(source.buffer)
    steps = list(source.strides) if any(n > 1 for n in source.strides) else None
    return sch.cache_read(block, place, scope, steps)
