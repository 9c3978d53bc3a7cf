"""interleave-scatters: interleaved scatters that fill contiguous memory become plain stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    ModuleOp,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint
from xdsl.utils.hints import isa

from tcopt.dialects.vector_ import ScatterOp
from tcopt.passes.kernel.accesses.constant_vectors import base_and_offset, constant_step
from tcopt.passes.kernel.accesses.lane_layouts import constant_prefix
from tcopt.passes.kernel.cleanup.effects import accessed
from tcopt.support.ir.rewriting import rewrite

_LARGEST_STEP = 8
"""Maximum step of the scatters to replace: each stored vector takes a shuffle per scatter."""


class InterleaveScatters(RewritePattern):
    """Replace scatters with interleaved addresses by contiguous stores of shuffled vectors.

    vector.scatter %y[%i][%even], %on, %a         // %even = [0, 2, 4, 6]
    vector.scatter %y[%i + 1][%even], %on, %b
    ->
    %0 = vector.shuffle %a, %b [0, 4, 1, 5]
    %1 = vector.shuffle %a, %b [2, 6, 3, 7]
    vector.store %0, %y[%i]
    vector.store %1, %y[%i + 4]
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ScatterOp, rewriter: PatternRewriter) -> None:
        group = _group_from(op)
        if group is not None:
            _interleave(group, rewriter)


@dataclass(frozen=True)
class InterleaveScattersPass(ModulePass):
    """Replaces scatters with interleaved addresses by shuffles and plain stores.

    A scatter of 8 lanes costs 8 stores. Two scatters with step 2, one at even and one at odd
    indices, together write two whole vectors.

    ```mlir
    vector.scatter %y[%i, %j][%even], %on, %a         // %even = [0, 2, 4, 6]
    vector.scatter %y[%i, %j + 1][%even], %on, %b
    ```
    becomes
    ```mlir
    %0 = vector.shuffle %a, %b [0, 4, 1, 5]
    %1 = vector.shuffle %a, %b [2, 6, 3, 7]
    vector.store %0, %y[%i, %j]
    vector.store %1, %y[%i, %j + 4]
    ```

    The same holds for any step up to 8. A constant mask may turn off the last lanes, whose
    elements are not written.
    """

    name = "interleave-scatters"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [InterleaveScatters()])


@dataclass
class _Group:
    """Scatters with equal step into one row, by the constant in their last index."""

    key: tuple[Any, ...]
    step: int
    parts: dict[int, ScatterOp]

    @property
    def ordered(self) -> list[ScatterOp]:
        return [self.parts[offset] for offset in sorted(self.parts)]

    @property
    def is_complete(self) -> bool:
        """Whether the scatters cover all indices without gaps."""
        low = min(self.parts)
        return sorted(self.parts) == list(range(low, low + self.step))


def _group_from(op: ScatterOp) -> _Group | None:
    """Return a complete group that starts with a scatter, with no aliasing access between its
    parts.
    """
    found = _part_of(op)
    if found is None:
        return None
    key, step, offset = found
    group = _Group(key, step, {offset: op})
    following = op.next_op
    while following is not None and not group.is_complete:
        if isinstance(following, ScatterOp):
            if following.base is op.base:
                part = _part_of(following)
                if part is None or part[0] != key or part[2] in group.parts:
                    return None
                group.parts[part[2]] = following
        elif (buffers := accessed(following)) is None or op.base in buffers:
            return None
        following = following.next_op
    return group if group.is_complete else None


def _part_of(op: ScatterOp) -> tuple[tuple[Any, ...], int, int] | None:
    """Return the key shared by all scatters of a group, and this one's step and offset."""
    step, active = constant_step(op.index_vec), constant_prefix(op.mask)
    if step is None or active is None or not 2 <= step <= _LARGEST_STEP:
        return None
    *outer, (last, offset) = [base_and_offset(index) for index in op.indices]
    key = (tuple(outer), last, step, active, op.mask, op.value_to_store.type)
    return key, step, offset


def _interleave(group: _Group, rewriter: PatternRewriter) -> None:
    """Write the stores at the position of the last scatter."""
    parts = group.ordered
    block = parts[0].parent
    assert block is not None
    place = max(parts, key=block.get_operation_index)
    ops: list[Operation] = []
    values = _interleaved([part.value_to_store for part in parts], ops)
    type_ = parts[0].value_to_store.type
    assert isa(type_, VectorType)
    lanes = type_.get_shape()[0]
    active = constant_prefix(parts[0].mask)
    assert active is not None
    remaining = active * group.step
    base, (*outer, last) = parts[0].base, parts[0].indices
    for number, value in enumerate(values):
        if remaining <= 0:
            break
        index = last
        if number:
            distance = arith.ConstantOp(IntegerAttr(number * lanes, IndexType()))
            add = arith.AddiOp(last, distance)
            ops += [distance, add]
            index = add.result
        indices = [*outer, index]
        if remaining >= lanes:
            ops.append(vector.StoreOp.create(operands=[value, base, *indices]))
        else:
            mask = _prefix_mask(remaining, lanes)
            ops += [mask, vector.MaskedStoreOp(base, indices, mask.result, value)]
        remaining -= lanes
    rewriter.insert(ops, InsertPoint.before(place))
    for part in parts:
        rewriter.erase(part)


def _prefix_mask(count: int, lanes: int) -> arith.ConstantOp:
    type_ = VectorType(i1, [lanes])
    bits = [int(lane < count) for lane in range(lanes)]
    return arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(type_, bits))


def _interleaved(values: Sequence[SSAValue], ops: list[Operation]) -> list[SSAValue]:
    """Return vectors with element 0 of each value, then element 1 of each, and so on."""
    count = len(values)
    if count == 1:
        return list(values)
    type_ = values[0].type
    assert isa(type_, VectorType)
    lanes = type_.get_shape()[0]
    if count % 2 == 0:
        even, odd = _interleaved(values[::2], ops), _interleaved(values[1::2], ops)
        result: list[SSAValue] = []
        for a, b in zip(even, odd, strict=True):
            for start in (0, lanes):
                picks = [(at % 2) * lanes + at // 2 for at in range(start, start + lanes)]
                result.append(_shuffle(a, b, picks, ops))
        return result
    return [_collected(values, number * lanes, ops) for number in range(count)]


def _collected(values: Sequence[SSAValue], start: int, ops: list[Operation]) -> SSAValue:
    """Build one of the interleaved vectors, merging one value after the other."""
    type_ = values[0].type
    assert isa(type_, VectorType)
    lanes, count = type_.get_shape()[0], len(values)
    places = range(start, start + lanes)
    result = values[0]
    for number, value in enumerate(values[1:], 1):
        picks: list[int] = []
        for lane, at in enumerate(places):
            source, element = at % count, at // count
            if source == number:
                picks.append(lanes + element)
            elif source < number:
                picks.append(element if number == 1 else lane)
            else:
                picks.append(lane)
        result = _shuffle(result, value, picks, ops)
    return result


def _shuffle(a: SSAValue, b: SSAValue, picks: Sequence[int], ops: list[Operation]) -> SSAValue:
    mask = DenseArrayBase.from_list(i64, picks)
    op = vector.ShuffleOp.create(operands=[a, b], result_types=[a.type], properties={"mask": mask})
    ops.append(op)
    return op.results[0]
