"""Pooling on the ALU of an accelerator: maxima and sums of windows.

    for each piece of the channels and pixels
      load bytes into registers, with padding                 acc_register
      results = neutral element
      results = results op registers, for each tap
      epilogue operations of the ALU, in place
      store the low bytes

The compute unit does everything but the stores, which overlap with the next piece. Pieces are
chosen to minimise the busy cycles of the compute unit or the port.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import ceil, prod

from xdsl.dialects.builtin import i8, i32

from tcopt.dialects.arith_ import ExtSIOp
from tcopt.dialects.intrinsics.vdla import alu_name
from tcopt.dialects.loop import LoadOp, StoreOp
from tcopt.dialects.loop.analysis import buffer_shape, value_ranges
from tcopt.dialects.loop.updates import neutral, update_of
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.schedules.analysis.patterns import BlockPattern, match_block
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.rules.vdla.epilogue import (
    Epilogue,
    alu_operations,
    find_epilogue,
    load_tables,
    move_steps,
    step_cycles,
)
from tcopt.schedules.rules.vdla.layouts import VdlaLayout, element_of
from tcopt.schedules.rules.vdla.tiles import load_of, piece_sizes, pixel_sizes
from tcopt.schedules.state.state import alloc_of
from tcopt.support.arithmetic.affine import linear_sum
from tcopt.support.remarks import remark

_SLOTS = 2
"""Slots of results: one is stored while the next one is computed."""


@dataclass(frozen=True)
class Windows:
    """A reduction over windows of registers.

    Attributes:
        lanes: the variable that moves along the lanes of a register entry.
        pieces: the other spatial variables, outermost first.
        taps: the reduce variables.
        load: the block that extends bytes into registers.
        load_name: intrinsic that loads bytes, with padding.
        data: layout of the bytes.
        results: layout of the results.
        operation: intrinsic of the ALU that combines the terms.
        neutral: initial value of the results.
    """

    pattern: BlockPattern
    lanes: int
    pieces: tuple[int, ...]
    taps: tuple[int, ...]
    load: Block
    load_name: str
    data: VdlaLayout
    results: VdlaLayout
    operation: str
    neutral: int
    epilogue: Epilogue


@schedule_rule(target="vdla", priority=90)
class Pooling:
    """Rule for a maximum or sum of windows of bytes."""

    name = "vdla-pooling"

    def apply(self, sch: Schedule, facts: VdlaTargetAttr) -> Declined | None:
        found = [b for b in sch.blocks() if sch.block_op(b).is_reduction]
        if len(found) != 1:
            return Declined("there is not one reduction", quiet=True)
        (block,) = found
        windows = find_windows(sch, block, facts)
        if isinstance(windows, Declined):
            return windows
        sizes = choose_sizes(windows, facts)
        if sizes is None:
            return Declined("no piece fits the accelerator's registers")
        remark("schedule", sch.block_op(block), f"pieces of {'x'.join(map(str, sizes.values()))}")
        _schedule(sch, block, windows, sizes, facts)
        return None


def find_windows(sch: Schedule, block: Block, facts: VdlaTargetAttr) -> Windows | Declined:
    """Return the parts of a reduction, or decline if the ALU cannot compute it."""
    op = sch.block_op(block)
    pattern = match_block(op)
    if pattern is None or len(pattern.terms) != 1 or pattern.is_contraction:
        return Declined("it does not reduce one operand", quiet=True)
    (term,) = pattern.terms
    if (element_of(term.buffer), element_of(pattern.store.buffer)) != (i32, i32):
        return Declined("it is not a reduction of registers", quiet=True)
    store = next(each for each in op.body.block.ops if isinstance(each, StoreOp))
    update = update_of(store)
    code, _ = ("", 0) if update is None else alu_operations().get(update.combine.name, ("", 0))
    rows, lanes, _ = facts.unit
    if rows != 1 or update is None or not code or update.term is not term.op.results[0]:
        return Declined("the alu does not combine its terms")
    lane = next(
        (
            v
            for v in pattern.spatial
            if pattern.extents[v] == lanes and term.is_unit(v) and pattern.store.is_unit(v)
        ),
        None,
    )
    if lane is None or any(None in each.steps for each in (term, pattern.store)):
        return Declined(f"no variable moves along the {lanes} lanes of a register")
    loaded = _loaded(sch, block, facts)
    if isinstance(loaded, Declined):
        return loaded
    load, name, shape, pads = loaded
    steps = tuple(each or (0,) * len(shape) for each in term.steps)
    epilogue = find_epilogue(sch, block, pattern, facts, load)
    if isinstance(epilogue, Declined):
        return epilogue
    if not epilogue.stores_bytes:
        return Declined("its results are not bytes")
    start = neutral(update.kind, i32).value.data
    assert isinstance(start, int)
    return Windows(
        pattern,
        lane,
        tuple(v for v in pattern.spatial if v != lane),
        pattern.reduce,
        load,
        name,
        VdlaLayout(shape, steps, (1,) * len(shape), pads),
        VdlaLayout.plain(pattern.store),
        alu_name(code, (rows, lanes)),
        start,
        epilogue,
    )


def _loaded(
    sch: Schedule, block: Block, facts: VdlaTargetAttr
) -> tuple[Block, str, tuple[int, ...], tuple[tuple[int, int], ...]] | Declined:
    """Return the block that extends bytes into registers for another block.

    Also return its intrinsic, the shape of the bytes, and their padding.
    """
    rows, lanes, _ = facts.unit
    reason = Declined("its operand is not bytes in memory")
    producers = sch.producers(block)
    source = match_block(sch.block_op(producers[0])) if len(producers) == 1 else None
    if source is None or len(source.terms) != 1 or source.terms[0].steps != source.store.steps:
        return reason
    (read,) = source.terms
    work = [op for op in source.block.body.block.ops if not isinstance(op, LoadOp | StoreOp)]
    types = element_of(read.buffer), element_of(source.store.buffer)
    if alloc_of(read.buffer) is not None or types != (i8, i32):
        return reason
    if len(work) != 1 or not isinstance(work[0], ExtSIOp) or not isinstance(read.op, LoadOp):
        return reason
    name = f"vdla_load_acc8_{rows}x{lanes}"
    if read.op.default is not None and (around := read.op.default.value.data):
        name = f"{name}_by_{around}"
    shape, size = buffer_shape(read.buffer), buffer_shape(source.store.buffer)
    ranges = value_ranges(list(read.op.indices))
    low = [-linear_sum(expr, ranges).constant for expr in read.op.map.data.results]
    pads = tuple((n, max(a - b - n, 0)) for n, a, b in zip(low, size, shape, strict=True))
    return producers[0], name, shape, pads


def choose_sizes(windows: Windows, facts: VdlaTargetAttr) -> dict[int, int] | None:
    """Return the size of a piece by variable; None if nothing fits the registers.

    Rows are as wide as possible.
    """
    pieces = windows.pieces
    *others, last = pieces
    rows = [sorted(set(_sizes(windows, v))) for v in others]
    for width in reversed(_sizes(windows, last)):
        choices = [dict(zip(pieces, (*row, width), strict=True)) for row in product(*rows)]
        fitting = [sizes for sizes in choices if _entries(windows, sizes) <= facts.entries["acc"]]
        if fitting:
            return min(fitting, key=lambda sizes: _cycles(windows, sizes, facts))
    return None


def _sizes(windows: Windows, variable: int) -> list[int]:
    """Return the sizes of pieces along a variable."""
    extents, data = windows.pattern.extents, windows.data
    moved = [dim for dim, step in enumerate(data.steps[variable]) if step]
    if any(any(data.steps[tap][dim] for tap in windows.taps) for dim in moved):
        return pixel_sizes(extents, data, windows.pieces, variable)
    return piece_sizes(extents[variable])


def _all_sizes(windows: Windows, sizes: Mapping[int, int]) -> list[int]:
    extents = windows.pattern.extents
    return [min(sizes.get(v, n), n) for v, n in enumerate(extents)]


def _entries(windows: Windows, sizes: Mapping[int, int]) -> int:
    """Return the register entries of a piece: its data, and all slots of its results."""
    whole, epilogue = _all_sizes(windows, sizes), windows.epilogue
    results = prod(whole[v] for v in windows.pieces)
    tables = sum(int(load_of(each, whole, 1).entries) for each in epilogue.tables)
    slots = 1 if results == prod(windows.pattern.extents[v] for v in windows.pieces) else _SLOTS
    data = int(load_of(windows.data, whole, 1).entries)
    return data + results * (slots + epilogue.registers) + tables


def _cycles(windows: Windows, sizes: Mapping[int, int], facts: VdlaTargetAttr) -> tuple[int, int]:
    """Return the busy cycles of the compute unit or the port, and the number of pieces."""
    whole, extents = _all_sizes(windows, sizes), windows.pattern.extents
    count = prod(ceil(extents[v] / whole[v]) for v in windows.pieces)
    size = facts.entry_bytes

    def moved(layout: VdlaLayout, memory: str) -> tuple[int, int]:
        """Return the port cycles for a piece, and its number of transfers."""
        load = load_of(layout, whole, 1)
        cycles = facts.transfer_cycles(load.rows, load.columns * size[memory])
        return int(load.transfers * cycles), int(load.transfers)

    loads, transfers = moved(windows.data, "acc8")
    stores, _ = moved(windows.results, "out")
    vectors = prod(whole[v] for v in windows.pieces)
    taps = prod(extents[v] for v in windows.taps)
    steps = windows.epilogue.steps
    alu = taps * facts.alu_reg.data + sum(step_cycles(step, facts) for step in steps)
    compute = loads + transfers * facts.latency.data + vectors * alu
    compute += (2 + len(steps)) * facts.fill.data
    return count * max(compute, loads + stores), count


def _schedule(
    sch: Schedule, block: Block, windows: Windows, sizes: Mapping[int, int], facts: VdlaTargetAttr
) -> None:
    """Split windows into pieces, and compute them by the accelerator's instructions."""
    steps = windows.epilogue.steps
    store = steps[-1].block
    for each in (block, windows.load, *(step.block for step in steps[:-1])):
        sch.set_scope(each, "acc_register")
    loops = variable_loops(sch, block)
    outer: list[Loop] = []
    for v in windows.pieces:
        if v in loops:
            piece, loops[v] = sch.split(loops[v], [None, min(sizes[v], sch.extent(loops[v]))])
            outer.append(piece)
    if not outer:
        outer = [sch.add_unit_loop(sch.get_loops(block)[0])]
    inside = [loops[v] for v in (*windows.taps, *windows.pieces, windows.lanes) if v in loops]
    sch.reorder(*outer, *inside)
    init = sch.decompose_reduction(block, inside[0])
    move_steps(sch, windows.epilogue, store, outer[-1])
    sch.compute_at(windows.load, outer[-1])
    tables = load_tables(sch, windows.epilogue)
    for table in tables:
        sch.compute_at(table, outer[-1])
    for step in steps:
        if step.over is not None:
            sch.compute_in_place(step.block, step.over)
    if any(sch.extent(each) > 1 for each in outer):
        sch.double_buffer(init, _SLOTS)
    rows, lanes, _ = facts.unit
    unit = f"{rows}x{lanes}"
    start = f"vdla_set_{unit}_by_{windows.neutral}" if windows.neutral else f"vdla_reset_{unit}"
    names = {
        block: windows.operation,
        init: start,
        windows.load: windows.load_name,
        **dict.fromkeys(tables, f"vdla_load_acc_{unit}"),
        **{step.block: step.intrinsic for step in steps},
    }
    for each, name in names.items():
        sch.tensorize(each, name)
