"""Rewriting of a loop body so that each op computes all iterations as lanes of vectors."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
    i1,
)
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.traits import is_side_effect_free
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.arith_ import SelectOp
from tcopt.dialects.fast_math import REASSOC, order_reason
from tcopt.dialects.loop.updates import neutral, update_of
from tcopt.dialects.simd import CodeDotOp, TableSumOp
from tcopt.dialects.table import ScaleOp
from tcopt.dialects.vector_ import ReductionOp
from tcopt.passes.loop.analysis.indexing import Knowledge, is_inside
from tcopt.passes.loop.analysis.lane_conflicts import NotVectorizable, check_lanes_independent
from tcopt.support.arithmetic.affine import (
    Dim,
    LinearSum,
    linear_sum,
    substitute,
    to_expr,
    used_dims,
)
from tcopt.support.ir.literals import number_attr
from tcopt.support.ir.quick_ir import new_op
from tcopt.support.memo import memo
from tcopt.support.syntax.access_syntax import unique_operands

__all__ = ["LaneRewriter", "NotVectorizable"]

MaskCondition = tuple[AffineMap, Sequence[SSAValue], int, int]
"""A condition of a mask: an expression, its values, extent and lane step."""


class LaneRewriter:
    """Emits the vectorised ops of a loop. Values that are equal in all iterations stay scalar."""

    def __init__(self, op: loop.ForOp, known: Knowledge):
        self.op = op
        self.lane = op.induction_variable
        self.lanes = op.trip_count
        self.known = known
        self.values: dict[SSAValue, SSAValue] = {}
        self.block = Block()
        self.masks: list[MaskCondition] = []
        self.mask: SSAValue | None = None

    def run(self) -> list[Operation]:
        """Return the ops that replace the loop.

        Raises:
            NotVectorizable: with the reason why the loop cannot be vectorised.
        """
        check_lanes_independent(self.op)
        self._ops(self.op.body.block)
        ops = list(self.block.ops)
        for op in ops:
            op.detach()
        return ops

    def _add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def _ops(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case loop.LoadOp():
                    self._load(op)
                case loop.StoreOp():
                    self._store(op)
                case loop.GuardOp():
                    self._guard(op)
                case loop.IndexOp():
                    self._index(op)
                case loop.ForOp():
                    self._inner_loop(op)
                case _:
                    self._plain(op)

    def _split(
        self, exprs: Sequence[AffineExpr], operands: Sequence[SSAValue]
    ) -> tuple[AffineMap, list[SSAValue], list[int]]:
        """Return the index expressions for lane 0 over new values, and their steps per lane."""
        ranges = self.known.ranges_of(operands)
        position = next((i for i, value in enumerate(operands) if value is self.lane), None)
        steps: list[int] = []
        results: list[AffineExpr] = []
        for expr in exprs:
            total = linear_sum(expr, ranges)
            steps.append(0 if position is None else _step(total, position))
            results.append(to_expr(_without(total, position)))
        map, used = unique_operands(AffineMap(len(operands), 0, tuple(results)), operands)
        values = [self.values.get(value, value) for value in used]
        if any(isa(value.type, VectorType) for value in values):
            raise NotVectorizable("an index is computed for each lane")
        self.known.ranges.update(
            (new, self.known.ranges[old])
            for old, new in zip(used, values, strict=True)
            if old in self.known.ranges
        )
        return map, values, steps

    def _load(self, op: loop.LoadOp) -> None:
        map, indices, steps = self._split(op.map.data.results, op.indices)
        if op.lanes is not None:
            new = self._load_vectors(op, map, indices, steps)
        elif any(steps):
            new = loop.LoadOp(
                op.memref,
                map,
                indices,
                default=op.default,
                lanes=steps,
                result_type=_vector_of(op.result.type, self.lanes),
            )
            if self.mask is not None and op.default is None and not is_inside(new, self.known):
                new = loop.LoadOp(
                    op.memref,
                    map,
                    indices,
                    lanes=steps,
                    mask=self.mask,
                    result_type=new.result.type,
                )
        else:
            new = loop.LoadOp(op.memref, map, indices, default=op.default)
            if self.mask is not None and op.default is None and not is_inside(new, self.known):
                # All lanes may be off, in which case the index may be out of bounds.
                new.default = _zero(op.result.type)
        new.result.name_hint = op.result.name_hint
        self.values[op.result] = self._add(new)

    def _load_vectors(
        self, op: loop.LoadOp, map: AffineMap, indices: Sequence[SSAValue], steps: Sequence[int]
    ) -> loop.LoadOp:
        """Return the load of a vector for each lane: a vector with one more dimension."""
        if op.mask is not None or op.default is not None:
            raise NotVectorizable("its body holds masked vectors already")
        stores = (use.operation for use in op.memref.uses)
        if any(isinstance(s, loop.StoreOp) and self.op.is_ancestor(s) for s in stores):
            raise NotVectorizable("its body stores to a buffer from which it loads vectors")
        rows, type_ = list(op.lane_steps), op.result.type
        if any(steps):
            rows, type_ = [tuple(steps), *rows], self._vector_of(type_)
        flat = [step for row in rows for step in row]
        new = loop.LoadOp(op.memref, map, indices, lanes=flat, result_type=type_)
        if self.mask is not None and not is_inside(new, self.known):
            raise NotVectorizable("a lane that is off would read a vector outside of a buffer")
        return new

    def _store(self, op: loop.StoreOp) -> None:
        if op.lanes is not None:
            raise NotVectorizable("its body stores vectors already")
        map, indices, steps = self._split(op.map.data.results, op.indices)
        value = self._get(op.value)
        if not any(steps):
            # A term that is equal in all lanes is still added once per lane.
            varies = isa(value.type, VectorType) or update_of(op) is not None
            if varies and self._reduce(op, map, indices):
                return
            if isa(value.type, VectorType) or self.mask is not None:
                raise NotVectorizable("every lane writes the same element")
            self.block.add_op(loop.StoreOp(value, op.memref, map, indices))
            return
        value = self._as_vector(value)
        new = loop.StoreOp(value, op.memref, map, indices, lanes=steps)
        if self.mask is None:
            self.block.add_op(new)
        elif isinstance(op.memref.owner, loop.AllocOp) and is_inside(new, self.known):
            # A local buffer may be written as a whole: restoring the old values of the lanes that
            # are off leaves plain accesses, which can be promoted to registers.
            old = loop.LoadOp(op.memref, map, indices, lanes=steps, result_type=value.type)
            kept = self._add(SelectOp(self.mask, value, self._add(old)))
            self.block.add_op(loop.StoreOp(kept, op.memref, map, indices, lanes=steps))
        else:
            self.block.add_op(
                loop.StoreOp(value, op.memref, map, indices, lanes=steps, mask=self.mask)
            )

    def _reduce(self, op: loop.StoreOp, map: AffineMap, indices: Sequence[SSAValue]) -> bool:
        """Reduce all lanes into the element that they update; return whether that is legal."""
        update = update_of(op)
        new = loop.StoreOp(self._get(op.value), op.memref, map, indices)
        if update is None or (self.mask is not None and not is_inside(new, self.known)):
            new.erase()
            return False
        term = self._as_vector(self._get(update.term))
        element = op.value.type
        if self.mask is not None:
            rest = self._add(arith.ConstantOp(neutral(update.kind, element)))
            term = self._add(SelectOp(self.mask, term, self._as_vector(rest)))
        if not update.in_any_order:
            raise NotVectorizable(order_reason(update.combine))
        flags = REASSOC if isinstance(element, AnyFloat) else None
        total = self._add(ReductionOp(term, update.kind, fastmath=flags))
        old = self._add(loop.LoadOp(op.memref, map, indices))
        combined = type(update.combine).create(
            operands=[old, total], result_types=[element], properties=update.combine.properties
        )
        new.operands[0] = self._add(combined)
        self.block.add_op(new)
        return True

    def _guard(self, op: loop.GuardOp) -> None:
        exprs, extents = op.map.data.results, op.condition_extents
        map, values, steps = self._split(exprs, op.indices)
        neighbours = self._touches_neighbours(op.body.block)
        uniform = [
            i
            for i, (expr, extent, step) in enumerate(zip(map.results, extents, steps, strict=True))
            if step == 0
            or (neighbours and step == 1 and self._ends_between_vectors(expr, values, extent))
        ]
        saved = self.masks, self.mask
        self.masks = self.masks + [
            (AffineMap(map.num_dims, 0, (map.results[i],)), values, extents[i], step)
            for i, step in enumerate(steps)
            if i not in uniform
        ]
        outer = self.block
        if uniform:
            self.block = Block()
        if len(uniform) < len(exprs):
            self.mask = self._add(self._mask_op())
        with self.known.inside_guard(
            [map.results[i] for i in uniform], values, [extents[i] for i in uniform]
        ):
            self._ops(op.body.block)
        self.masks, self.mask = saved
        if uniform:
            chosen = AffineMap(map.num_dims, 0, tuple(map.results[i] for i in uniform))
            body, self.block = self.block, outer
            guard_map, guard_values = unique_operands(chosen, values)
            guard = loop.GuardOp(
                guard_map, guard_values, [extents[i] for i in uniform], Region(body)
            )
            self.block.add_op(guard)

    def _touches_neighbours(self, block: Block) -> bool:
        """Whether a block's vectors are contiguous, so that all lanes are in bounds or none."""
        for op in block.ops:
            if op.regions:
                return False
            if isinstance(op, loop.LoadOp | loop.StoreOp):
                _, _, steps = self._split(op.map.data.results, op.indices)
                if any(steps[:-1]) or steps[-1:] not in ([0], [1]):
                    return False
        return True

    def _ends_between_vectors(
        self, expr: AffineExpr, values: Sequence[SSAValue], extent: int
    ) -> bool:
        """Whether a condition, given for lane 0, holds for all lanes or none."""
        total = linear_sum(expr, self.known.ranges_of(values))
        starts = (total.constant, *(factor for _, factor in total.terms))
        return all(each % self.lanes == 0 for each in (extent, *starts))

    def _mask_op(self) -> loop.MaskOp:
        values: list[SSAValue] = []
        results: list[AffineExpr] = []
        for map, operands, _, _ in self.masks:
            dims: list[AffineExpr] = [AffineDimExpr(len(values) + i) for i in range(len(operands))]
            results.append(substitute(map.results[0], dims))
            values += operands
        map, operands = unique_operands(AffineMap(len(values), 0, tuple(results)), values)
        extents, steps = [c[2] for c in self.masks], [c[3] for c in self.masks]
        return loop.MaskOp(map, operands, extents, steps, VectorType(i1, [self.lanes]))

    def _index(self, op: loop.IndexOp) -> None:
        map, values, (step,) = self._split(op.map.data.results, op.indices)
        first = self._add(loop.IndexOp(map, values))
        self.values[op.result] = self._spread(first, step) if step else first

    def _spread(self, first: SSAValue, step: int) -> SSAValue:
        """Return the vector `first, first + step, ...`."""
        type_ = VectorType(IndexType(), [self.lanes])
        numbers = [lane * step for lane in range(self.lanes)]
        offsets = self._add(arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(type_, numbers)))
        return self._add(arith.AddiOp(self._as_vector(first), offsets))

    def _inner_loop(self, op: loop.ForOp) -> None:
        self.known.enter_loop(op)
        body = Block(arg_types=[IndexType()])
        body.args[0].name_hint = op.induction_variable.name_hint
        self.values[op.induction_variable] = body.args[0]
        limit = None if op.limit is None else self._get(op.limit)
        if limit is not None and isa(limit.type, VectorType):
            raise NotVectorizable("the number of iterations of an inner loop varies with the lane")
        new = op.around(Region(body), limit)
        self.known.enter_loop(new)
        outer, self.block = self.block, body
        self._ops(op.body.block)
        self.block = outer
        self.block.add_op(new)

    def _plain(self, op: Operation) -> None:
        """Copy an op; in vector form if any operand is a vector."""
        if op.regions or not is_side_effect_free(op) or isinstance(op, loop.AllocOp):
            raise NotVectorizable(f"it holds {op.name}")
        operands = [self._get(operand) for operand in op.operands]
        # Values that differ between lanes have a type with one more dimension.
        is_vector = any(
            new.type != old.type for new, old in zip(operands, op.operands, strict=True)
        )
        types = [result.type for result in op.results]
        if isinstance(op, ScaleOp) and isa(operands[1].type, VectorType):
            raise NotVectorizable("lanes take different entries of a table")
        if is_vector:
            operands = [
                operand
                if operand.type != old.type or self._serves_all_lanes(op, position, operand)
                else self._spread_to(self._vector_of(old.type), operand)
                for position, (old, operand) in enumerate(zip(op.operands, operands, strict=True))
            ]
            types = [self._vector_of(type_) for type_ in types]
        new = new_op(type(op), operands, types, op.properties, op.attributes)
        if is_vector:
            _check_vector_form(new)
        self.block.add_op(new)
        for old, result in zip(op.results, new.results, strict=True):
            result.name_hint = old.name_hint
            self.values[old] = result

    def _serves_all_lanes(self, op: Operation, position: int, operand: SSAValue) -> bool:
        """Whether the vector form of an op takes this operand as a scalar."""
        match op:
            case SelectOp():
                # A scalar condition selects a whole vector.
                return position == 0 and operand.type == i1
            case ScaleOp():
                return position == 1
            case TableSumOp() | CodeDotOp():
                return op.serves_all_lanes(position)
            case _:
                return False

    def _get(self, value: SSAValue) -> SSAValue:
        if value is self.lane and value not in self.values:
            zero = AffineMap(0, 0, (AffineConstantExpr(0),))
            self.values[value] = self._spread(self._add(loop.IndexOp(zero, [])), 1)
        return self.values.get(value, value)

    def _vector_of(self, type_: Attribute) -> VectorType[Attribute]:
        return _vector_of(type_, self.lanes)

    def _as_vector(self, value: SSAValue) -> SSAValue:
        if isa(value.type, VectorType):
            return value
        return self._spread_to(self._vector_of(value.type), value)

    def _spread_to(self, type_: VectorType[Attribute], value: SSAValue) -> SSAValue:
        return self._add(BroadcastOp(value, type_))


@memo(256)
def _vector_of(type_: Attribute, lanes: int) -> VectorType[Attribute]:
    if isa(type_, VectorType):
        return VectorType(type_.get_element_type(), [lanes, *type_.get_shape()])
    if not isa(type_, IntegerType | IndexType | AnyFloat):
        raise NotVectorizable(f"there are no vectors of {type_}")
    return VectorType(type_, [lanes])


_verified: set[tuple[object, ...]] = set()
"""Op classes with operand types, result types and properties that are known to verify."""


def _check_vector_form(new: Operation) -> None:
    """Check that an op has a vector form; erase it and raise NotVectorizable if not."""
    key = (type(new), *new.operand_types, *new.result_types, *new.properties.items())
    if key in _verified:
        return
    try:
        new.verify(verify_nested_ops=False)
    except VerifyException:
        new.erase()
        raise NotVectorizable(f"{new.name} has no vector form") from None
    _verified.add(key)


def _without(total: LinearSum, position: int | None) -> LinearSum:
    """Set a dimension of a sum to 0; it must not be in a division."""
    if position is None:
        return total
    terms = tuple((atom, factor) for atom, factor in total.terms if atom != Dim(position))
    return LinearSum(terms, total.constant)


def _step(total: LinearSum, position: int) -> int:
    """Return the change of a sum per lane."""
    step = total.coefficient(position)
    others = LinearSum(
        tuple((atom, factor) for atom, factor in total.terms if atom != Dim(position)), 0
    )
    if position in used_dims(to_expr(others)):
        raise NotVectorizable("an index divides by something that varies with the lane")
    return step


def _zero(type_: Attribute) -> IntegerAttr | FloatAttr:
    return number_attr(0, type_)
