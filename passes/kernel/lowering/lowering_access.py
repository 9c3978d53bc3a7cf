"""Lowering of the loop dialect's loads, stores and masks to memref and vector ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xdsl.dialects import memref, scf, vector
from xdsl.dialects.builtin import (
    DenseArrayBase,
    VectorType,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineMap
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.arith_ import SelectOp
from tcopt.dialects.size import Measure, extents_of
from tcopt.dialects.vector_ import GatherOp, ScatterOp
from tcopt.passes.kernel.accesses.lane_layouts import (
    constant_prefix,
    is_adjacent,
    lane_count,
    lane_steps,
)
from tcopt.passes.kernel.lowering.kernel_buffers import KernelBuffers
from tcopt.passes.kernel.lowering.lane_masks import Condition, LaneMasks
from tcopt.passes.kernel.lowering.lowering_levels import LevelWriter
from tcopt.support.arithmetic.sizes import upper_bound
from tcopt.support.ir.quick_ir import new_op

_SHUFFLED_STRIDES = (2, 3, 4)


_Layout = tuple[tuple[int, ...] | None, int, Measure]
"""Lane steps if there are lanes, the number of lanes, and their stride in memory."""


class AccessLowering:
    """Lowers accesses; arguments are values of the kernel."""

    def __init__(self, writer: LevelWriter, buffers: KernelBuffers):
        self.writer = writer
        self.buffers = buffers
        self.masks = LaneMasks(writer)
        self._layouts: dict[tuple[int, ...], tuple[tuple[object, ...], _Layout]] = {}

    def load(
        self, op: loop.LoadOp, buffer: SSAValue, operands: Sequence[SSAValue], mask: SSAValue | None
    ) -> SSAValue:
        """Lower a load; return its value."""
        writer, exprs = self.writer, op.map.data.results
        if op.lanes is not None and len(op.lanes) > len(exprs):
            return self._load_vectors(op, buffer, operands)
        steps, lanes, stride = self.lane_layout(op, op.results[0].type, buffer)
        conditions = [] if op.default is None else self.open(op, operands, steps, lanes)
        indices = [writer.index(expr, operands) for expr in exprs]
        key = (*indices, lanes, steps, op.default, mask)
        if (found := writer.loaded(buffer, key)) is not None:
            return found
        if not lanes:
            value = self._scalar_load(op, buffer, indices, operands, conditions)
        else:
            assert steps is not None
            value = self._vector_load(
                op, buffer, indices, operands, (steps, lanes, stride), mask, conditions
            )
        writer.remember_load(buffer, key, value)
        return value

    def lane_layout(
        self, op: loop.LoadOp | loop.StoreOp, value_type: Attribute, buffer: SSAValue
    ) -> _Layout:
        """Return the layout of an access, cached by the identity of what it depends on."""
        lanes = op.lanes
        if lanes is None:
            return None, 0, 0
        depends = (lanes, value_type, buffer)
        key = (id(lanes), id(value_type), id(buffer))
        found = self._layouts.get(key)
        if found is None:
            steps = lane_steps(lanes)
            layout = (steps, lane_count(value_type), self.buffers.step(buffer, steps))
            found = self._layouts[key] = (depends, layout)
        return found[1]

    def _load_vectors(
        self, op: loop.LoadOp, buffer: SSAValue, operands: Sequence[SSAValue]
    ) -> SSAValue:
        """Load a vector of several dimensions: at once if it is contiguous, otherwise as vectors
        along its first dimension.
        """
        writer, exprs, type_ = self.writer, op.map.data.results, op.result.type
        assert isa(type_, VectorType)
        indices = [writer.index(expr, operands) for expr in exprs]
        key = (*indices, type_, op.lane_steps)
        found = writer.loaded(buffer, key)
        if found is not None:
            return found
        shape = type_.get_shape()
        if is_adjacent(buffer.type, op.lane_steps, shape):
            found = self._contiguous_load(buffer, indices, type_)
        else:
            row, *rest = op.lane_steps
            inner = VectorType(type_.get_element_type(), shape[1:])
            found = self.masks.splat(None, type_)
            for lane in range(shape[0]):
                moved = [
                    e + AffineConstantExpr(step * lane) for e, step in zip(exprs, row, strict=True)
                ]
                part = loop.LoadOp(
                    op.memref,
                    AffineMap(len(op.indices), 0, tuple(moved)),
                    op.indices,
                    lanes=[step for each in rest for step in each],
                    result_type=inner,
                )
                value = self.load(part, buffer, operands, None)
                part.erase()
                found = writer.write(vector.InsertOp(value, found, [lane])).results[0]
        writer.remember_load(buffer, key, found)
        return found

    def store(
        self,
        op: loop.StoreOp,
        value: SSAValue,
        buffer: SSAValue,
        operands: Sequence[SSAValue],
        mask: SSAValue | None,
    ) -> None:
        """Lower a store."""
        writer = self.writer
        if op.lanes is not None and len(op.lanes) > len(op.map.data.results):
            self._store_vectors(op, value, buffer, operands)
            return
        indices = [writer.index(expr, operands) for expr in op.map.data.results]
        writer.forget_loads(buffer)
        steps, lanes, stride = self.lane_layout(op, value.type, buffer)
        if steps is None:
            writer.write(new_op(memref.StoreOp, [value, buffer, *indices]))
            return
        if stride == 1 and mask is None:
            writer.write(new_op(vector.StoreOp, [value, buffer, *indices]))
        elif stride == 1 and mask is not None:
            writer.write(vector.MaskedStoreOp(buffer, indices, mask, value))
        elif stride == 0 and mask is None:
            last = self._extract(value, lanes - 1)
            writer.write(new_op(memref.StoreOp, [last, buffer, *indices]))
        else:
            offsets = self.masks.offsets(lanes, stride)
            writer.write(
                ScatterOp(buffer, indices, offsets, mask or self.masks.all_on(lanes), value)
            )

    def _store_vectors(
        self, op: loop.StoreOp, value: SSAValue, buffer: SSAValue, operands: Sequence[SSAValue]
    ) -> None:
        """Store a vector of several dimensions: at once if it is contiguous, otherwise as vectors
        along its first dimension.
        """
        writer, exprs, type_ = self.writer, op.map.data.results, value.type
        assert isa(type_, VectorType)
        shape = type_.get_shape()
        if is_adjacent(buffer.type, op.lane_steps, shape):
            indices = [writer.index(expr, operands) for expr in exprs]
            writer.forget_loads(buffer)
            writer.write(new_op(vector.StoreOp, [value, buffer, *indices]))
            return
        row, *rest = op.lane_steps
        for lane in range(shape[0]):
            moved = [
                e + AffineConstantExpr(step * lane) for e, step in zip(exprs, row, strict=True)
            ]
            inner = VectorType(type_.get_element_type(), shape[1:])
            part = writer.write(vector.ExtractOp(value, [lane], inner)).results[0]
            store = loop.StoreOp(
                part,
                op.memref,
                AffineMap(len(op.indices), 0, tuple(moved)),
                op.indices,
                lanes=[step for each in rest for step in each],
            )
            self.store(store, part, buffer, operands, None)
            store.erase()

    def open(
        self,
        op: loop.LoadOp,
        operands: Sequence[SSAValue],
        steps: Sequence[int] | None,
        lanes: int,
    ) -> list[Condition]:
        """Return the in-bounds conditions of an access that are not known to hold."""
        extents = extents_of(op.memref.type)
        result: list[Condition] = []
        for expr, step, extent in zip(
            op.map.data.results, steps or (0,) * len(extents), extents, strict=True
        ):
            reach = step * max(lanes - 1, 0)
            if isinstance(extent, int):
                low, high = self.writer.known.bounds(expr, operands)
                is_inside = low + min(reach, 0) >= 0 and high + max(reach, 0) < extent
            else:
                ends = (expr + end for end in {0, reach})
                is_inside = all(self.buffers.is_below(e, operands, extent) for e in ends)
            if not is_inside:
                limit, most = self.buffers.sizes.measure(extent), upper_bound(extent)
                result.append(Condition(expr, step, limit, most))
        return result

    def _scalar_load(
        self,
        op: loop.LoadOp,
        buffer: SSAValue,
        indices: Sequence[SSAValue],
        operands: Sequence[SSAValue],
        conditions: Sequence[Condition],
    ) -> SSAValue:
        type_ = op.result.type
        if not conditions or op.default is None:
            load = new_op(memref.LoadOp, [buffer, *indices], [type_])
            return self.writer.write(load).results[0]
        load = new_op(memref.LoadOp, [buffer, *indices], [type_])
        return self._choose(conditions, operands, load, self.writer.number(op.default))

    def _choose(
        self,
        conditions: Sequence[Condition],
        operands: Sequence[SSAValue],
        load: memref.LoadOp | vector.LoadOp,
        otherwise: SSAValue,
    ) -> SSAValue:
        """Emit a load guarded by conditions that are the same for all lanes."""
        writer = self.writer
        inside = [writer.is_inside(c.expr, operands, c.extent) for c in conditions]
        then = Region(Block([load, scf.YieldOp(load.results[0])]))
        else_ = Region(Block([scf.YieldOp(otherwise)]))
        branch = scf.IfOp(writer.all_of(inside), [otherwise.type], then, else_)
        return writer.write(branch).results[0]

    def _vector_load(
        self,
        op: loop.LoadOp,
        buffer: SSAValue,
        indices: Sequence[SSAValue],
        operands: Sequence[SSAValue],
        layout: tuple[tuple[int, ...], int, Measure],
        mask: SSAValue | None,
        conditions: Sequence[Condition],
    ) -> SSAValue:
        writer: LevelWriter = self.writer
        type_: Any = op.results[0].type
        steps, lanes, stride = layout
        uniform = all(condition.step == 0 for condition in conditions)
        if mask is None and not conditions:
            if stride == 1:
                return self._contiguous_load(buffer, indices, type_)
            if stride == 0:
                return self._broadcast_load(buffer, indices, type_)
            if isinstance(stride, int) and stride in _SHUFFLED_STRIDES:
                return self._strided_load(op, buffer, operands, stride, type_)
        elif (
            mask is None and stride == 1 and (first := self._place_in_row(op, operands)) is not None
        ):
            return self._row_part(op, buffer, indices, operands, first, conditions)
        elif mask is None and uniform and stride == 1:
            load = new_op(vector.LoadOp, [buffer, *indices], [type_])
            return self._choose(conditions, operands, load, self.masks.splat(op.default, type_))
        elif mask is None and steps[-1] == stride in _SHUFFLED_STRIDES:
            return self._strided_load(op, buffer, operands, steps[-1], type_, conditions=conditions)
        if conditions:
            inside = self.masks.of(conditions, operands, lanes)
            mask = inside if mask is None else writer.all_of([mask, inside])
        mask = mask or self.masks.all_on(lanes)
        otherwise = self.masks.splat(op.default, type_)
        if stride == 1:
            masked = vector.MaskedLoadOp(buffer, indices, mask, otherwise, type_)
            return writer.write(masked).results[0]
        active = constant_prefix(mask)
        if active is not None and isinstance(stride, int) and stride in _SHUFFLED_STRIDES:
            result = self._strided_load(op, buffer, operands, stride, type_, active)
            return writer.pure(SelectOp, (mask, result, otherwise), type_)
        offsets = self.masks.offsets(lanes, stride)
        return writer.write(GatherOp(buffer, indices, offsets, mask, otherwise)).results[0]

    def _place_in_row(self, op: loop.LoadOp, operands: Sequence[SSAValue]) -> int | None:
        """Return the constant start of a vector that is partly in a row as long as itself; None for
        others.
        """
        type_, lanes = op.memref.type, lane_count(op.result.type)
        expr, extent = op.map.data.results[-1], extents_of(type_)[-1]
        first, last = self.writer.known.bounds(expr, operands)
        return first if first == last and extent == lanes and 0 < abs(first) < lanes else None

    def _row_part(
        self,
        op: loop.LoadOp,
        buffer: SSAValue,
        indices: Sequence[SSAValue],
        operands: Sequence[SSAValue],
        first: int,
        conditions: Sequence[Condition],
    ) -> SSAValue:
        """Load the whole row and shift its lanes, so that all vectors in it share one load."""
        writer, type_ = self.writer, op.result.type
        assert isa(type_, VectorType)
        lanes, otherwise = lane_count(type_), self.masks.splat(op.default, type_)
        at = [*indices[:-1], writer.index(AffineConstantExpr(0), operands)]
        here = [condition for condition in conditions if condition.step == 0]
        if here:
            key = (*at, "row", type_, op.default)
            row = writer.loaded(buffer, key)
            if row is None:
                load = new_op(vector.LoadOp, [buffer, *at], [type_])
                row = self._choose(here, operands, load, otherwise)
                writer.remember_load(buffer, key, row)
        else:
            row = self._contiguous_load(buffer, at, type_)
        picks = [n if 0 <= n < lanes else lanes for n in range(first, first + lanes)]
        return self._shuffle(row, otherwise, picks)

    def _broadcast_load(
        self, buffer: SSAValue, indices: Sequence[SSAValue], type: VectorType[Any]
    ) -> SSAValue:
        load = memref.LoadOp.create(
            operands=[buffer, *indices], result_types=[type.get_element_type()]
        )
        value = self.writer.write(load).results[0]
        return self.writer.pure(vector.BroadcastOp, (value,), type)

    def _contiguous_load(
        self, buffer: SSAValue, indices: Sequence[SSAValue], type: VectorType[Any]
    ) -> SSAValue:
        key = (*indices, "contiguous", type)
        found = self.writer.loaded(buffer, key)
        if found is None:
            load = new_op(vector.LoadOp, [buffer, *indices], [type])
            found = self.writer.write(load).results[0]
            self.writer.remember_load(buffer, key, found)
        return found

    def _strided_load(
        self,
        op: loop.LoadOp,
        buffer: SSAValue,
        operands: Sequence[SSAValue],
        stride: int,
        type: VectorType[Any],
        active: int | None = None,
        conditions: Sequence[Condition] = (),
    ) -> SSAValue:
        """Load whole vectors that cover the first `active` lanes, by default all of them.

        They end at the last active lane; the elements of inactive lanes are arbitrary. If
        conditions on the last index are false, elements have the default value.
        """
        lanes = type.get_shape()[0]
        used = lanes if active is None else active
        span = stride * (used - 1) + 1
        starts = sorted({max(min(at, span - lanes), 0) for at in range(0, span, lanes)})
        writer, exprs = self.writer, op.map.data.results
        result: SSAValue | None = None
        first_lane = 0
        for start in starts:
            # The last index may exceed its extent, as the elements are contiguous in memory.
            last = exprs[-1] + AffineConstantExpr(start)
            at = [writer.index(expr, operands) for expr in (*exprs[:-1], last)]
            if conditions:
                part = self._guarded_load(op, buffer, at, operands, start, type, conditions)
            elif start + lanes <= span:
                part = self._contiguous_load(buffer, at, type)
            else:
                on = self.masks.constant([start + lane < span for lane in range(lanes)])
                masked = vector.MaskedLoadOp(buffer, at, on, self.masks.splat(None, type), type)
                part = writer.write(masked).results[0]
            end_lane = min(used, -(-(start + lanes) // stride))
            if result is None:
                picks = [lane * stride if lane < end_lane else 0 for lane in range(lanes)]
                result = self._shuffle(part, part, picks)
            else:
                picks = [
                    lane
                    if lane < first_lane
                    else lanes + lane * stride - start
                    if lane < end_lane
                    else 0
                    for lane in range(lanes)
                ]
                result = self._shuffle(result, part, picks)
            first_lane = end_lane
        assert result is not None
        return result

    def _guarded_load(
        self,
        op: loop.LoadOp,
        buffer: SSAValue,
        indices: Sequence[SSAValue],
        operands: Sequence[SSAValue],
        start: int,
        type: VectorType[Any],
        conditions: Sequence[Condition],
    ) -> SSAValue:
        """Load contiguous elements starting at offset `start`, each under its own conditions."""
        key = (*indices, "guarded", type, op.default)
        found = self.writer.loaded(buffer, key)
        if found is None:
            here = [
                replace(c, expr=c.expr + AffineConstantExpr(start), step=1) if c.step else c
                for c in conditions
            ]
            inside = self.masks.of(here, operands, type.get_shape()[0])
            otherwise = self.masks.splat(op.default, type)
            masked = vector.MaskedLoadOp(buffer, indices, inside, otherwise, type)
            found = self.writer.write(masked).results[0]
            self.writer.remember_load(buffer, key, found)
        return found

    def _shuffle(self, lhs: SSAValue, rhs: SSAValue, picks: Sequence[int]) -> SSAValue:
        mask = DenseArrayBase.from_list(i64, picks)
        return self.writer.pure(vector.ShuffleOp, (lhs, rhs), lhs.type, {"mask": mask})

    def _extract(self, value: SSAValue, lane: int) -> SSAValue:
        assert isa(value.type, VectorType)
        op = vector.ExtractOp(value, [lane], value.type.get_element_type())
        return self.writer.write(op).results[0]
