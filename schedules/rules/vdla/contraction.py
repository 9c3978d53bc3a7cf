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

from tcopt.dialects.graph.core.forms import CONTRACTION
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.accelerator.pieces import Pieces, cut
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.rules.vdla.epilogue import load_tables, move_steps
from tcopt.schedules.rules.vdla.roles import OperandSource, VdlaRoles, find_roles
from tcopt.schedules.rules.vdla.tile_space import TileSpace
from tcopt.schedules.spaces.space import Choice, Point
from tcopt.schedules.state.state import buffers_read
from tcopt.support.remarks import remark


@schedule_rule(target="vdla", priority=100)
class Contraction:
    """Rule for a contraction of bytes."""

    name = "vdla-contraction"
    provides = (CONTRACTION,)

    def space(self, sch: Schedule, facts: VdlaTargetAttr) -> TileSpace | Declined:
        roles = find_roles(sch, facts)
        if isinstance(roles, Declined):
            return roles
        if not roles.epilogue.stores_bytes and "i32" not in facts.stored_types:
            return Declined("the accelerator does not store 32-bit results")
        space = TileSpace(roles, facts)
        return Declined("no piece fits the accelerator's memories") if space.is_empty else space

    def apply(
        self, sch: Schedule, facts: VdlaTargetAttr, space: TileSpace, choice: Choice
    ) -> Declined | None:
        roles = find_roles(sch, facts)
        assert isinstance(roles, VdlaRoles), "there is a space"
        schedule_tile(sch, roles, space.pieces(Point(dict(choice))), facts)
        return None


def choose_tile(
    roles: VdlaRoles, facts: VdlaTargetAttr, *, serial: bool = False, threads: int = 1
) -> Pieces | None:
    """Return the pieces that take the fewest cycles; None if none fits.

    Args:
        serial: use one slot for each operand.
        threads: number of virtual threads, each with its own slot.
    """
    space = TileSpace(roles, facts)
    choice = space.shortest((1, 1, 1) if serial else None, threads)
    return space.pieces(Point(choice)) if choice else None


def schedule_tile(sch: Schedule, roles: VdlaRoles, tile: Pieces, facts: VdlaTargetAttr) -> None:
    """Split a contraction into pieces, and compute them by the accelerator's instructions."""
    block = roles.block
    remark("schedule", sch.block_op(block), f"pieces of {tile}")
    steps = roles.epilogue.steps
    store = steps[-1].block if roles.epilogue.stores_bytes else None
    if store is None:
        store = sch.cache_write(steps[-1].block if steps else block, "acc_register")
    for each in (block, *(step.block for step in steps)):
        if steps and each != store:
            sch.set_scope(each, "acc_register")
    loops = cut(sch, roles, tile)
    init = sch.decompose_reduction(block, loops.first)
    move_steps(sch, roles.epilogue, store, loops.results[-1])
    data = _cached(sch, block, roles.inputs, "acc_input")
    sch.compute_at(data, loops.place(roles.pixels, whole=bool(tile.whole_data)))
    weights = _cached(sch, block, roles.kernel, "acc_weight")
    sch.compute_at(weights, loops.place(roles.outputs, whole=bool(tile.whole_weights)))
    tables = load_tables(sch, roles.epilogue)
    for table, layout in zip(tables, roles.epilogue.tables, strict=True):
        moving = tuple(v for v in (*roles.outputs, *roles.pixels) if any(layout.steps[v]))
        sch.compute_at(table, loops.place(moving, whole=True))
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


def _cached(sch: Schedule, block: Block, source: OperandSource, scope: str) -> Block:
    """Return the block that loads an operand."""
    if source.producer is not None:
        sch.set_scope(source.producer, scope)
        return source.producer
    place = buffers_read(sch.block_op(block)).index(source.buffer)
    steps = list(source.strides) if any(n > 1 for n in source.strides) else None
    return sch.cache_read(block, place, scope, steps)
