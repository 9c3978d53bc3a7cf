"""Sums of products on the matrix unit of an accelerator that its facts describe.

    for each piece of the results
      sums = 0                                    reset
      for each part of the sum
        load data and weights
        multiply and add
      store the sums

Pieces are as large as the memories hold, with two slots where there is room, so that the next is
loaded while this one is computed with; of those the ones that move the least through the port.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import Any

from tcopt.dialects.graph.forms import CONTRACTION
from tcopt.dialects.target import AcceleratorFacts
from tcopt.dialects.target.accelerator import MatrixInstructions, MatrixUnit
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.accelerator.products import Products, find_products
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.rule import Declined
from tcopt.schedules.state.state import buffers_read
from tcopt.support.remarks import remark

_SLOTS = 2
_SUM_BYTES = 4


class MatrixContraction:
    """Rule for a sum of products of bytes; register it for a kind of accelerator:

    schedule_rule(target="tile", priority=100)(MatrixContraction)
    """

    name = "accelerator-contraction"
    provides = (CONTRACTION,)

    def apply(self, sch: Schedule, facts: AcceleratorFacts) -> Declined | None:
        unit = facts.matrix_unit
        if unit is None or unit.instructions is None:
            return Declined("the accelerator has no matrix unit with instructions of its own")
        found = find_products(sch, unit)
        if isinstance(found, Declined):
            return found
        after = [b for b in sch.blocks() if b not in (found.block, found.padding)]
        if len(after) > 1 or (after and not self.stores(sch, after[0], facts)):
            return Declined("something else is computed from its results")
        pieces = choose_pieces(found, facts, unit, unit.instructions)
        if pieces is None:
            return Declined("no piece fits the accelerator's memories")
        remark("schedule", sch.block_op(found.block), f"pieces of {pieces}")
        store = after[0] if after else None
        name = self.store_instruction(facts, unit.instructions, store is not None)
        schedule_pieces(sch, found, pieces, unit.instructions, store, name)
        return None

    def stores(self, sch: Schedule, block: Block, facts: Any) -> bool:
        """Whether a block that reads the sums is what a store does with them."""
        return False

    def store_instruction(
        self, facts: Any, instructions: MatrixInstructions, is_computed: bool
    ) -> str:
        """The intrinsic that stores results; `is_computed` where a block says what it does."""
        return instructions.store


@dataclass(frozen=True)
class Pieces:
    """Sizes of pieces by variable, and how many slots operands have."""

    sizes: dict[int, int]
    slots: int

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.sizes.values()))}, {self.slots} slots"


def choose_pieces(
    found: Products, facts: AcceleratorFacts, unit: MatrixUnit, names: MatrixInstructions
) -> Pieces | None:
    """The pieces that take the fewest cycles, transfers beside products; None if none fits."""
    best: tuple[int, Pieces] | None = None
    for pieces in _candidates(found):
        if not _fits(found, pieces, facts, names):
            continue
        cycles = _cycles(found, pieces, facts, unit)
        if best is None or cycles < best[0]:
            best = cycles, pieces
    return None if best is None else best[1]


def _candidates(found: Products) -> Iterator[Pieces]:
    extents = found.pattern.extents
    variables = (*found.outputs, *found.pixels, *found.depth)
    choices = [dict.fromkeys(_halves(extents[v])) for v in variables]
    whole = dict.fromkeys(found.groups, 1)
    for sizes in product(*choices):
        for slots in (_SLOTS, 1):
            yield Pieces(whole | dict(zip(variables, sizes, strict=True)), slots)


def _halves(extent: int) -> Iterator[int]:
    """The extent, and about a half, a third and so on, down to one."""
    pieces = 1
    while pieces < extent:
        yield ceil(extent / pieces)
        pieces = pieces + 1 if pieces < 4 else 2 * pieces
    yield 1


def _bytes(found: Products, pieces: Pieces) -> tuple[int, int, int]:
    """Of a piece's data, weights and sums."""
    data = found.entries(found.data, pieces.sizes)
    weights = found.entries(found.weights, pieces.sizes)
    spatial = (*found.outputs, *found.pixels, *found.groups)
    sums = prod(pieces.sizes[v] for v in spatial) * found.pattern.extents[found.lane]
    return data, weights, sums * _SUM_BYTES


def _fits(
    found: Products, pieces: Pieces, facts: AcceleratorFacts, names: MatrixInstructions
) -> bool:
    needed: dict[str, int] = {}
    scopes = (names.data, names.weights, names.sums)
    for scope, size in zip(scopes, _bytes(found, pieces), strict=True):
        needed[scope] = needed.get(scope, 0) + size * pieces.slots
    memories = facts.memories
    return all(
        size <= memories[scope].entries * memories[scope].entry_bytes
        for scope, size in needed.items()
    )


def _cycles(found: Products, pieces: Pieces, facts: AcceleratorFacts, unit: MatrixUnit) -> int:
    """About how long it takes: port and unit beside each other where there are two slots."""
    extents = found.pattern.extents
    spatial = (*found.groups, *found.outputs, *found.pixels)
    results = prod(ceil(extents[v] / pieces.sizes[v]) for v in spatial)
    steps = results * prod(ceil(extents[v] / pieces.sizes[v]) for v in found.depth)
    data, weights, sums = _bytes(found, pieces)
    latency = facts.memory_port.latency
    loads = sum(facts.transfer_cycles(1, size) + latency for size in (data, weights))
    port = steps * loads + results * (facts.transfer_cycles(1, sums) + latency)
    products = prod(extents) * unit.cycles // unit.products
    return max(port, products) if pieces.slots > 1 else port + products


def schedule_pieces(
    sch: Schedule,
    found: Products,
    pieces: Pieces,
    names: MatrixInstructions,
    store: Block | None,
    store_name: str,
) -> None:
    """Cut a sum of products into pieces, and let the accelerator's instructions compute them."""
    block = found.block
    if store is None:
        store = sch.cache_write(block, names.sums)
    else:
        sch.set_scope(block, names.sums)
    loops = variable_loops(sch, block)
    outer: dict[int, Loop] = {}
    for v, size in pieces.sizes.items():
        if v in loops:
            outer[v], loops[v] = sch.split(loops[v], [None, min(size, sch.extent(loops[v]))])
    results = [outer[v] for v in (*found.groups, *found.outputs, *found.pixels) if v in outer]
    results = results or [sch.add_unit_loop(sch.get_loops(block)[0])]
    parts = [outer[v] for v in found.depth if v in outer]
    inner = (*found.outputs, *found.depth, *found.taps, *found.pixels, found.lane, found.inner)
    inside = [loops[v] for v in (*found.groups, *inner) if v in loops]
    sch.reorder(*results, *parts, *inside)
    first_sum = next(loops[v] for v in inner if v in loops)
    init = sch.decompose_reduction(block, parts[0] if parts else first_sum)
    sch.reverse_compute_at(store, results[-1])
    place = (parts or results)[-1]
    loaded: list[Block] = []
    for access, scope, made in (
        (found.data, names.data, found.padding),
        (found.weights, names.weights, None),
    ):
        if made is not None:
            sch.set_scope(made, scope)
        else:
            operand = buffers_read(sch.block_op(block)).index(access.buffer)
            made = sch.cache_read(block, operand, scope)
        sch.compute_at(made, place)
        loaded.append(made)
    for each in (*loaded, init):
        if pieces.slots > 1:
            sch.double_buffer(each, pieces.slots)
    sch.tensorize(block, names.multiply)
    sch.tensorize(init, names.reset)
    for each, name in zip(loaded, (names.load_data, names.load_weights), strict=True):
        sch.tensorize(each, name)
    sch.tensorize(store, store_name)
