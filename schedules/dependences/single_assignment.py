"""Find the buffers whose elements are computed once, completely, before anything reads them.

Results do not depend on the order in which elements of such a buffer are computed, nor on how
often, so a primitive only needs to ensure that values are computed before they are read. Functions
lowered from tensor expressions have no other buffers. The uses of a buffer decide:

- each block that writes it does so by one store, whose indices are distinct for distinct points of
  the block, or by a reduction with its initialisation, whose combiner is associative and
  commutative (for floats: has `fastmath<reassoc>`);
- the block runs exactly once for each of its points;
- different blocks write disjoint parts of it;
- all other readers are in nests after those of all writers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineDimExpr,
)

from tcopt.dialects.fast_math import order_reason
from tcopt.dialects.loop import (
    AllocOp,
    BarrierOp,
    BlockOp,
    BorderOp,
    CallOp,
    ForOp,
    FuncOp,
    InitOp,
    IntrinOp,
    IterKind,
    LoadOp,
    PopTokenOp,
    PrefetchOp,
    PushTokenOp,
    StoreOp,
    is_same_place,
    loop_of,
    owning_block,
    path_to,
)
from tcopt.dialects.loop.analysis import Box, access_box, accesses
from tcopt.dialects.loop.structure import enclosing_loops, is_size
from tcopt.dialects.loop.updates import update_of
from tcopt.schedules.dependences.texts import access_text, block_text
from tcopt.schedules.state.state import block_label, value_label
from tcopt.support.arithmetic.integer_points import determines
from tcopt.support.arithmetic.intervals import extents_to_ranges
from tcopt.support.arithmetic.sizes import upper_bound
from tcopt.support.ir.literals import integers

_FENCES = (BarrierOp, CallOp, PopTokenOp, PushTokenOp)
"""Ops that are ordered with all memory accesses."""


class NotSingle(Exception):
    """The reason why a buffer is not written once and then read."""


@dataclass
class _Uses:
    """Uses of one buffer; blocks are in no particular order."""

    readers: dict[BlockOp | None, Operation] = field(default_factory=lambda: {})
    writers: dict[BlockOp | None, list[StoreOp]] = field(default_factory=lambda: {})
    borders: list[BorderOp] = field(default_factory=lambda: [])


@dataclass
class Classes:
    """Buffers of a function that are not single-assignment as defined above, with the reasons.

    Attributes:
        shared: buffers whose reads and writes may depend on order.
        ordered: buffers that are single-assignment except for an update that does not commute.
        fence: an op that is ordered with all memory accesses, if there is one.
    """

    shared: dict[SSAValue, str] = field(default_factory=lambda: {})
    ordered: dict[SSAValue, str] = field(default_factory=lambda: {})
    fence: Operation | None = None


def classify(func: FuncOp) -> Classes:
    """Classify every buffer of a function."""
    classes = Classes()
    buffers: list[SSAValue] = [a for a in func.body.block.args if not is_size(a)]
    for op in _outside_blocks(func):
        if isinstance(op, AllocOp):
            buffers.append(op.result)
        elif isinstance(op, _FENCES):
            classes.fence = op
    for buffer in buffers:
        try:
            uses = _uses_of(buffer)
            if not uses.writers and not uses.borders:
                continue
            reason = _check_buffer(buffer, uses, func)
        except NotSingle as found:
            classes.shared[buffer] = str(found)
        else:
            if reason is not None:
                classes.ordered[buffer] = reason
    return classes


def updates_commute(store: StoreOp) -> bool:
    """Whether a store combines the element it writes with one term, in any order of the terms."""
    update = update_of(store)
    return update is not None and update.in_any_order


def _outside_blocks(func: FuncOp) -> Iterator[Operation]:
    """Yield the ops of a function, except blocks and their contents."""
    rest = [func.body.block]
    while rest:
        for op in rest.pop().ops:
            kind = type(op)
            if kind is ForOp:
                rest.append(op.regions[0].block)
            elif kind is not BlockOp:
                yield op
                rest += (block for region in op.regions for block in region.blocks)


def _uses_of(buffer: SSAValue) -> _Uses:
    found = _Uses()
    for use in buffer.uses:
        op = use.operation
        match op:
            case LoadOp():
                found.readers[owning_block(op)] = op
            case StoreOp():
                found.writers.setdefault(owning_block(op), []).append(op)
            case IntrinOp() if use.index >= len(op.outputs):
                found.readers[owning_block(op)] = op
            case BorderOp():
                found.borders.append(op)
            case PrefetchOp():
                pass
            case _:
                raise NotSingle(f"a {op.name} works on {value_label(buffer)}")
    return found


def _check_buffer(buffer: SSAValue, uses: _Uses, func: FuncOp) -> str | None:
    """Check that a buffer is single-assignment.

    Returns:
        Why the order of its updates matters; None if it does not.
    Raises:
        NotSingle: the buffer is not single-assignment.
    """
    order: str | None = None
    for block, stores in uses.writers.items():
        if block is None:
            raise NotSingle(f"{value_label(buffer)} is written outside of blocks")
        order = _check_writer(block, stores) or order
        _check_points(block)
    if len(uses.writers) > 1 or uses.borders:
        _check_parts(buffer, uses, func)
    _check_readers(buffer, uses, func)
    return order


def _check_writer(block: BlockOp, stores: list[StoreOp]) -> str | None:
    """Check that a block computes each element separately, from nothing that it wrote itself.

    Returns:
        Why the order of its updates matters; None if it does not.
    """
    steps = [op for op in stores if op.parent_op() is block]
    starts = [op for op in stores if isinstance(op.parent_op(), InitOp)]
    if len(steps) != 1 or len(starts) != block.is_reduction or len(stores) != len(steps + starts):
        raise NotSingle(f"block {block_label(block)} writes it by {len(stores)} stores")
    (store,) = steps
    if store.lanes is not None or any(not is_same_place(each, store) for each in starts):
        raise NotSingle(f"block {block_label(block)} writes several elements at once")
    _check_apart(block, store)
    loads = [op for op in _loads(block) if op.memref is store.memref]
    if not loads:
        return None
    if not block.is_reduction or any(
        op.parent_op() is not block or not is_same_place(op, store) for op in loads
    ):
        raise NotSingle(f"block {block_label(block)} reads it by {_text(loads[0])}")
    update = update_of(store)
    if update is None or loads != [update.accumulator]:
        return f"the updates of block {block_label(block)} do not commute"
    if not update.in_any_order:
        return f"in block {block_label(block)} {order_reason(update.combine)}"
    return None


def _loads(block: BlockOp) -> Iterator[LoadOp]:
    return (op for op in block.body.walk() if isinstance(op, LoadOp))


def _check_apart(block: BlockOp, store: StoreOp) -> None:
    """Check that distinct points of a block write distinct elements."""
    variables = block.iter_vars
    kinds = block.iter_kinds
    used = {
        position
        for position, variable in enumerate(variables)
        if kinds[position] is IterKind.SPATIAL and variable.first_use is not None
    }
    results, indices = store.map.data.results, store.indices
    places: list[int] = []
    for index in indices:
        if index not in variables:
            raise NotSingle(f"an index of {_text(store)} is computed")
        places.append(variables.index(index))
    domain = block.domain
    wanted = [place for place, position in enumerate(places) if position in used]
    ranges = extents_to_ranges([domain[position] for position in places])
    missing = {position for position in used - {*places} if domain[position] > 1}
    if missing or not determines(results, ranges, wanted):
        raise NotSingle(f"two points may write the same element by {_text(store)}")


def _check_points(block: BlockOp) -> None:
    """Check that the loops around a block run it once for each of its points."""
    values = block.operands_
    bound: list[SSAValue] = []
    for expr, extent in zip(block.bindings.data.results, block.domain, strict=True):
        if isinstance(expr, AffineDimExpr):
            value = values[expr.position]
            loop = loop_of(value)
            if loop is None or loop.trip_count != extent:
                raise NotSingle(f"block {block_label(block)} does not run for its whole domain")
            bound.append(value)
        elif extent != 1 or expr != AffineConstantExpr(0):
            raise NotSingle(f"loops of block {block_label(block)} are not its variables")
    if any(not isinstance(op, ForOp | BlockOp) for op in path_to(block)):
        raise NotSingle(f"block {block_label(block)} is inside a conditional")
    around = [o.induction_variable for o in enclosing_loops(block) if o.trip_count != 1]
    if len(set(bound)) != len(bound) or not set(around) <= set(bound):
        raise NotSingle(f"block {block_label(block)} does not run once for each of its points")


def _check_parts(buffer: SSAValue, uses: _Uses, func: FuncOp) -> None:
    """Check that no two blocks, and no border, write the same element."""
    boxes: list[tuple[BlockOp | None, list[tuple[int, int]]]] = []
    for block, stores in uses.writers.items():
        (access,) = accesses(stores[-1])
        boxes.append((block, _spans(access_box(access, func))))
    for (first, low), (second, high) in combinations(boxes, 2):
        if not any(
            a_end <= b or b_end <= a for (a, a_end), (b, b_end) in zip(low, high, strict=True)
        ):
            names = f"{block_text(first)} and {block_text(second)}"
            raise NotSingle(f"{names} may write the same element of {value_label(buffer)}")
    for border in uses.borders:
        inside = list(zip(integers(border.first), map(upper_bound, border.ends), strict=True))
        for block, spans in boxes:
            parts = zip(spans, inside, strict=True)
            if len(uses.borders) > 1 or any(a < low or b > high for (a, b), (low, high) in parts):
                raise NotSingle(
                    f"{block_text(block)} may write the border of {value_label(buffer)}"
                )


def _spans(box: Box) -> list[tuple[int, int]]:
    """Return start and end (exclusive) along each dimension, which are constant in a function."""
    spans: list[tuple[int, int]] = []
    for dim in box.dims:
        if not isinstance(dim.base, AffineConstantExpr):
            raise NotSingle("the bounds of its parts are not constant")
        spans.append((dim.base.value, dim.base.value + dim.extent))
    return spans


def _check_readers(buffer: SSAValue, uses: _Uses, func: FuncOp) -> None:
    """Check that blocks which read a buffer without writing it come after all of its writers."""
    readers = [op for block, op in uses.readers.items() if block not in uses.writers]
    if not readers:
        return
    writers = [*(stores[0] for stores in uses.writers.values()), *uses.borders]
    last = _last([path_to(op)[0] for op in writers])
    for op in readers:
        first = path_to(op)[0]
        if first is last or first.is_before_in_block(last):
            label, block = value_label(buffer), block_text(owning_block(op))
            raise NotSingle(f"{block} reads {label} before, or between, its writes")


def _last(ops: Sequence[Operation]) -> Operation:
    last = ops[0]
    for op in ops[1:]:
        if last is not op and last.is_before_in_block(op):
            last = op
    return last


def _text(op: LoadOp | StoreOp) -> str:
    return access_text(op, op.memref)
