"""Copying of loop bodies with constants for the loop variables."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.arith_ import SelectOp
from tcopt.dialects.table import ScaleOp
from tcopt.passes.loop.analysis.indexing import IndexedOp, Knowledge, is_inside
from tcopt.passes.loop.unroll.store_forwarding import Piece, StoreForwarding
from tcopt.passes.loop.unroll.table_folds import TableFolds
from tcopt.passes.loop.unroll.unroll_plans import AccessPlan, PlainPlan, UnrolledAccess, plan_access
from tcopt.support.errors import PassFailedError
from tcopt.support.ir.quick_ir import append_ops, copy_name, new_op
from tcopt.support.memo import memo

_Handler = Callable[[Any, list[Operation]], None]


class _Copies:
    """Values of earlier copies that later copies may reuse, along straight-line code.

    Only loads, and unary ops on them such as broadcasts, are reused: these are what the copies of a
    tile share. Products are not reused, because each sum may be fused with its own product.
    """

    def __init__(self) -> None:
        self.loads: dict[SSAValue, dict[Hashable, SSAValue]] = {}
        """Loaded values of each buffer since it was last written."""
        self.moved: dict[tuple[Operation, SSAValue], SSAValue] = {}

    def clear(self) -> None:
        """Forget all values, at region boundaries or after an op that may write any buffer."""
        self.loads.clear()
        self.moved.clear()


class Unroller:
    """Unrolls one loop and the unrolled loops inside of it."""

    def __init__(self, known: Knowledge):
        self.known = known
        self.shared = Knowledge(dict(known.ranges), list(known.facts), known.sizes, known.lanes)
        """Facts that hold in every copy; `known` also includes the guards of the current copy."""
        self.numbers: dict[SSAValue, int] = {}
        self.values: dict[SSAValue, SSAValue] = {}
        self.plans: dict[Operation, AccessPlan] = {}
        self.plain_plans: dict[Operation, PlainPlan] = {}
        self.bodies: dict[Block, list[tuple[_Handler, Operation]]] = {}
        self.always_on: set[SSAValue] = set()
        """Masks of the original body that are on in all lanes of the current copy."""
        self.always_off: set[SSAValue] = set()
        """Masks that are off in all lanes."""
        self.constants: dict[Operation, Operation] = {}
        self.tables = TableFolds()
        self.copies = _Copies()
        self.registers = StoreForwarding()
        self.handlers: dict[type[Operation], _Handler] = {
            loop.LoadOp: self._load,
            loop.StoreOp: self._store,
            loop.ForOp: self._for,
            loop.GuardOp: self._guard,
            loop.MaskOp: self._mask,
            loop.IndexOp: self._index,
            loop.PrefetchOp: self._prefetch,
            loop.BlockOp: self._reject_block,
            ScaleOp: self._fold,
            arith.AddfOp: self._fold,
            arith.AddiOp: self._fold,
        }

    def run(self, op: loop.ForOp) -> list[Operation]:
        """Return the ops that replace all iterations."""
        result: list[Operation] = []
        self._copies(op, result)
        self.registers.write_all(result)
        return [*self.constants.values(), *result]

    def _copies(self, op: loop.ForOp, result: list[Operation]) -> None:
        for number in range(op.trip_count):
            self.numbers[op.induction_variable] = number
            self._ops(op.body.block, result)

    def _ops(self, block: Block, result: list[Operation]) -> None:
        body = self.bodies.get(block)
        if body is None:
            body = [(self.handlers.get(type(op), self._plain), op) for op in block.ops]
            self.bodies[block] = body
        for handler, op in body:
            handler(op, result)

    def _inner(self, block: Block, outer: list[Operation]) -> list[Operation]:
        """Copy the ops of a region without reusing values across its boundary."""
        inner: list[Operation] = []
        self._forget(outer)
        self._ops(block, inner)
        self._forget(inner)
        return inner

    def _forget(self, result: list[Operation]) -> None:
        """Forget memory contents, as later ops may see a different state."""
        self.copies.clear()
        self.registers.write_all(result)

    def _reject_block(self, op: loop.BlockOp, result: list[Operation]) -> None:
        raise PassFailedError(
            f'block "{op.block_name.data}" is not lowered', op=op, hint="run lower-blocks first"
        )

    def _index(self, op: loop.IndexOp, result: list[Operation]) -> None:
        plan = self._plan(op)
        place = plan.place(self.numbers, self.shared)
        if not plan.kept:
            (number,) = place.map.data.results
            assert isinstance(number, AffineConstantExpr)
            self.numbers[op.result] = number.value
            return
        new = new_op(loop.IndexOp, self._mapped(plan.kept), (IndexType(),), place.properties)
        self._finish(op, new, result)

    def _prefetch(self, op: loop.PrefetchOp, result: list[Operation]) -> None:
        map, indices = self._access(op)
        locality = op.locality.value.data
        result.append(loop.PrefetchOp(op.memref, map.data, indices, locality))

    def _finish(self, old: Operation, new: Operation, result: list[Operation]) -> None:
        result.append(new)
        for before, after in zip(old.results, new.results, strict=True):
            copy_name(before, after)
            self.values[before] = after

    def _get(self, value: SSAValue) -> SSAValue:
        return self.values.get(value, value)

    def _mapped(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        get = self.values.get
        return [get(value, value) for value in values]

    def _plan(self, op: IndexedOp) -> AccessPlan:
        plan = self.plans.get(op)
        if plan is None:
            plan = self.plans[op] = plan_access(op, self.numbers, self.shared)
        return plan

    def _access(self, op: IndexedOp) -> tuple[AffineMapAttr, list[SSAValue]]:
        """Return the map and the index operands of a copy."""
        plan = self._plan(op)
        return plan.place(self.numbers, self.shared).map, self._mapped(plan.kept)

    def _load(self, op: loop.LoadOp, result: list[Operation]) -> None:
        plan = self._plan(op)
        mask = plan.mask
        if mask is not None:
            if mask in self.always_off:
                default = 0 if op.default is None else op.default.value.data
                self._constant(op.result, default, result)
                return
            mask = None if mask in self.always_on else self._get(mask)
        place = plan.place(self.numbers, self.shared)
        (buffer,) = self._mapped(plan.leading)
        piece = self._register_piece(plan, place, mask, buffer, result)
        if piece is not None:
            held = self.registers.load(buffer, piece, result)
            if held is not None:
                self.values[op.results[0]] = held
                return
        operands, properties = self._memory_access(plan, place, mask)
        loads = self.copies.loads.setdefault(buffer, {})
        key = (id(place), len(operands), *operands[1:])
        known = loads.get(key)
        # An unused load, due to a zero table entry, is not reused but loaded where it is needed.
        if known is not None and known.first_use is not None:
            self.values[op.results[0]] = known
            return
        new = new_op(loop.LoadOp, operands, [op.results[0].type], properties, op.attributes)
        if mask is None and "default" in properties and is_inside(new, self.known):
            new.default = None
        self._finish(op, new, result)
        loads[key] = new.results[0]
        if piece is not None:
            self.registers.loaded(buffer, piece, new.results[0])

    def _register_piece(
        self,
        plan: AccessPlan,
        place: UnrolledAccess,
        mask: SSAValue | None,
        buffer: SSAValue,
        result: list[Operation],
    ) -> Piece | None:
        """Return the piece of a register buffer that a copy accesses, or None if unknown.

        If it is unknown, deferred stores are emitted first.
        """
        if not plan.in_registers:
            return None
        if mask is None and place.piece is not None:
            return place.piece
        self.registers.write(buffer, result)
        return None

    def _store(self, op: loop.StoreOp, result: list[Operation]) -> None:
        plan = self._plan(op)
        mask = plan.mask
        if mask is not None:
            if mask in self.always_off:
                return
            mask = None if mask in self.always_on else self._get(mask)
        place = plan.place(self.numbers, self.shared)
        value, buffer = self._mapped(plan.leading)
        piece = self._register_piece(plan, place, mask, buffer, result)
        if piece is not None:
            self.copies.loads.pop(buffer, None)
            self.registers.store(op, place.properties, value, buffer, piece, result)
            return
        if self._stores_what_is_there(op, result):
            return
        self.copies.loads.pop(buffer, None)
        operands, properties = self._memory_access(plan, place, mask)
        result.append(new_op(loop.StoreOp, operands, (), properties, op.attributes))

    def _stores_what_is_there(self, op: loop.StoreOp, result: list[Operation]) -> bool:
        """Whether a copy stores the value that it loaded from the same elements, in all lanes."""
        value = op.value.owner
        if not isinstance(value, SelectOp) or value.cond not in self.always_off:
            return False
        kept = value.rhs.owner
        if not isinstance(kept, loop.LoadOp):
            return False
        if (kept.memref, kept.map, *kept.indices) != (op.memref, op.map, *op.indices):
            return False
        # The buffer must not have been written in between.
        loaded, memref = self._get(value.rhs), self._get(op.memref)
        if result[-1:] == [loaded.owner]:
            self.copies.loads.pop(memref, None)
            result.pop()
            return True
        return loaded in self.copies.loads.get(memref, {}).values()

    def _memory_access(
        self, plan: AccessPlan, place: UnrolledAccess, mask: SSAValue | None
    ) -> tuple[list[SSAValue], dict[str, Attribute]]:
        """Return the operands and properties of a copy."""
        operands = self._mapped(plan.leading) + self._mapped(plan.kept)
        if mask is None:
            return operands, place.properties
        segments = plan.segments(masked=True)
        return [*operands, mask], {**place.properties, "operandSegmentSizes": segments}

    def _for(self, op: loop.ForOp, result: list[Operation]) -> None:
        if op.loop_kind is loop.LoopKind.UNROLLED:
            self._copies(op, result)
            return
        body = Block(arg_types=[IndexType()])
        body.args[0].name_hint = op.induction_variable.name_hint
        limit = None if op.limit is None else self._operand(op.limit, result)
        new = op.around(Region(body), limit)
        self.values[op.induction_variable] = body.args[0]
        for known in (self.known, self.shared):
            known.enter_loop(op)
        self.known.enter_loop(new)
        append_ops(body, self._inner(op.body.block, result))
        result.append(new)

    def _guard(self, op: loop.GuardOp, result: list[Operation]) -> None:
        map, indices = self._access(op)
        exprs, extents = map.data.results, op.condition_extents
        decided = [
            self.known.decide(expr, indices, extent)
            for expr, extent in zip(exprs, extents, strict=True)
        ]
        if False in decided:
            return
        open_ = [i for i, holds in enumerate(decided) if holds is None]
        with self.known.inside_guard(exprs, indices, extents):
            if not open_:
                self._ops(op.body.block, result)
                return
            inner = self._inner(op.body.block, result)
        body = Block()
        append_ops(body, inner)
        simplified, values = self.known.simplify([exprs[i] for i in open_], indices)
        result.append(loop.GuardOp(simplified, values, [extents[i] for i in open_], Region(body)))

    def _mask(self, op: loop.MaskOp, result: list[Operation]) -> None:
        map, indices = self._access(op)
        assert isa(op.result.type, VectorType)
        last = op.result.type.get_shape()[0] - 1
        exprs = map.data.results
        open_: list[int] = []
        for i, (expr, (extent, step)) in enumerate(zip(exprs, op.conditions, strict=True)):
            ends = (expr, expr + AffineConstantExpr(step * last))
            if not all(self.known.decide(end, indices, extent) is True for end in ends):
                open_.append(i)
        self.always_on.discard(op.result)
        self.always_off.discard(op.result)
        if not open_:
            self.always_on.add(op.result)
            if not all(isinstance(u.operation, _DROPS_FULL_MASK) for u in op.result.uses):
                self._constant(op.result, 1, result)
            return
        if any(self._is_beyond(exprs[i], indices, *op.conditions[i], last) for i in open_):
            self.always_off.add(op.result)
            self._constant(op.result, 0, result)
            return
        simplified, values = self.known.simplify([exprs[i] for i in open_], indices)
        extents = [op.conditions[i][0] for i in open_]
        steps = [op.conditions[i][1] for i in open_]
        self._finish(op, loop.MaskOp(simplified, values, extents, steps, op.result.type), result)

    def _is_beyond(
        self, expr: AffineExpr, indices: list[SSAValue], extent: int, step: int, last: int
    ) -> bool:
        """Whether all lanes fail a mask's condition on the same side."""
        low, high = self.known.bounds(expr, indices)
        moved = step * last
        return max(high, high + moved) < 0 or min(low, low + moved) >= extent

    def _constant(self, old: SSAValue, number: float, result: list[Operation]) -> None:
        """Replace a value by a constant with equal lanes."""
        if isa(old.type, VectorType[AnyFloat]):
            dense = DenseIntOrFPElementsAttr.from_list(old.type, [number])
        else:
            assert isa(old.type, VectorType[IntegerType])
            dense = DenseIntOrFPElementsAttr.from_list(old.type, [int(number)])
        constant = arith.ConstantOp(dense)
        result.append(constant)
        self.values[old] = constant.result

    def _plain(self, op: Operation, result: list[Operation]) -> None:
        if isinstance(op, SelectOp) and op.cond in self.always_on:
            self.values[op.result] = self._get(op.lhs)
            return
        if isinstance(op, SelectOp) and op.cond in self.always_off:
            self.values[op.result] = self._get(op.rhs)
            return
        plan = self.plain_plans.get(op)
        if plan is None:
            plan = self.plain_plans[op] = PlainPlan(op)
        if not plan.operands and plan.is_pure:
            if (known := self.constants.get(op)) is None:
                known = self.constants[op] = op.clone()
                known.results[0].name_hint = op.results[0].name_hint
            self.values[op.results[0]] = known.results[0]
            return
        operands = [self._operand(operand, result) for operand in plan.operands]
        if not plan.is_pure:
            self._forget(result)
        elif plan.moves:
            known_value = self.copies.moved.get((op, operands[0]))
            if known_value is not None:
                self.values[op.results[0]] = known_value
                return
        if op.regions:
            mapper = dict(zip(op.operands, operands, strict=True))
            new = op.clone({**self.values, **mapper})
        else:
            new = new_op(type(op), operands, plan.result_types, op.properties, op.attributes)
        self._finish(op, new, result)
        if plan.moves:
            self.copies.moved[op, operands[0]] = new.results[0]

    def _fold(self, op: ScaleOp | arith.AddfOp | arith.AddiOp, result: list[Operation]) -> None:
        """Copy a product by a table entry, or a sum, folding it if possible."""
        lhs = self._get(op.operands[0])
        if isinstance(op, ScaleOp):
            index = self.numbers.get(op.index, self._get(op.index))
            value = self.tables.scale(op, lhs, index, result)
        else:
            value = self.tables.add(op, lhs, self._get(op.rhs), result)
        if value is None:
            self._plain(op, result)
        else:
            self.values[op.result] = value

    def _operand(self, value: SSAValue, result: list[Operation]) -> SSAValue:
        number = self.numbers.get(value)
        if number is None:
            return self._get(value)
        constant = new_op(arith.ConstantOp, (), (IndexType(),), {"value": _index_attr(number)})
        result.append(constant)
        return constant.result


_DROPS_FULL_MASK = (loop.LoadOp, loop.StoreOp)


@memo(4096)
def _index_attr(number: int) -> IntegerAttr:
    return IntegerAttr(number, IndexType())
