"""Contractions on the matrix unit of an accelerator that is described by its facts.

    for each piece of the results
      sums = 0                                    reset
      for each part of the sum
        load data and weights
        multiply and add
      store the sums

Pieces are as large as the memories hold, with two slots if they fit, so that the next piece is
loaded while the current one is used. Of these the default choice moves the fewest bytes through the
port; the rule's space (`piece_space.py`) has the alternatives.
"""

from __future__ import annotations

from typing import Any

from tcopt.dialects.graph.core.forms import CONTRACTION
from tcopt.dialects.target import AcceleratorFacts
from tcopt.dialects.target.accelerator import MatrixInstructions
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.accelerator.piece_space import PieceSpace
from tcopt.schedules.rules.accelerator.pieces import Pieces, cut
from tcopt.schedules.rules.accelerator.products import Products, find_products
from tcopt.schedules.rules.rule import Declined
from tcopt.schedules.spaces.space import Choice, Point
from tcopt.schedules.state.state import buffers_read
from tcopt.support.remarks import remark


class MatrixContraction:
    """Rule for a contraction of bytes. Register it for a kind of accelerator:

    schedule_rule(target="tile", priority=100)(MatrixContraction)
    """

    name = "accelerator-contraction"
    provides = (CONTRACTION,)

    def space(self, sch: Schedule, facts: AcceleratorFacts) -> PieceSpace | Declined:
        unit = facts.matrix_unit
        if unit is None or unit.instructions is None:
            return Declined("the accelerator has no matrix unit with instructions of its own")
        found = find_products(sch, unit)
        if isinstance(found, Declined):
            return found
        after = _after(sch, found)
        if len(after) > 1 or (after and not self.stores(sch, after[0], facts)):
            return Declined("something else is computed from its results")
        space = PieceSpace(found, facts, unit, unit.instructions)
        return Declined("no piece fits the accelerator's memories") if space.is_empty else space

    def apply(
        self, sch: Schedule, facts: AcceleratorFacts, space: PieceSpace, choice: Choice
    ) -> Declined | None:
        unit = facts.matrix_unit
        assert unit is not None and unit.instructions is not None, "there is a space"
        found = find_products(sch, unit)
        assert not isinstance(found, Declined), "there is a space"
        pieces = space.pieces(Point(dict(choice)))
        remark("schedule", sch.block_op(found.block), f"pieces of {pieces}")
        after = _after(sch, found)
        is_computed = bool(after) and self.stores(sch, after[0], facts)
        name = self.store_instruction(facts, unit.instructions, is_computed)
        store = after[0] if after else None
        schedule_pieces(sch, found, pieces, unit.instructions, store, name)
        return None

    def stores(self, sch: Schedule, block: Block, facts: Any) -> bool:
        """Whether a store instruction can compute a block that reads the sums."""
        return False

    def store_instruction(
        self, facts: Any, instructions: MatrixInstructions, is_computed: bool
    ) -> str:
        """Return the intrinsic that stores results.

        Args:
            is_computed: whether a block in the function describes what the store computes.
        """
        return instructions.store


def _after(sch: Schedule, found: Products) -> list[Block]:
    """Return the blocks other than the contraction and the copy of its data."""
    return [block for block in sch.blocks() if block not in (found.block, found.padding)]


def schedule_pieces(
    sch: Schedule,
    found: Products,
    pieces: Pieces,
    names: MatrixInstructions,
    store: Block | None,
    store_name: str,
) -> None:
    """Split a contraction into pieces, and compute them by the accelerator's instructions."""
    block = found.block
    if store is None:
        store = sch.cache_write(block, names.sums)
    else:
        sch.set_scope(block, names.sums)
    loops = cut(sch, found, pieces)
    init = sch.decompose_reduction(block, loops.first)
    sch.reverse_compute_at(store, loops.results[-1])
    loaded: list[Block] = []
    for access, scope, made, moving, whole in (
        (found.data, names.data, found.padding, found.pixels, pieces.whole_data),
        (found.weights, names.weights, None, found.outputs, pieces.whole_weights),
    ):
        if made is not None:
            sch.set_scope(made, scope)
        else:
            operand = buffers_read(sch.block_op(block)).index(access.buffer)
            made = sch.cache_read(block, operand, scope)
        sch.compute_at(made, loops.place(moving, whole=bool(whole)))
        loaded.append(made)
    for each, slots in zip((*loaded, init), pieces.slots, strict=True):
        if slots > 1:
            sch.double_buffer(each, slots)
    sch.tensorize(block, names.multiply)
    sch.tensorize(init, names.reset)
    for each, name in zip(loaded, (names.load_data, names.load_weights), strict=True):
        sch.tensorize(each, name)
    sch.tensorize(store, store_name)
