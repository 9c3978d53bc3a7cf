"""Copying loop bodies with the loops' variables replaced by numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.traits import Pure
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.arith_ import SelectOp
from tcopt.dialects.table import ScaleOp
from tcopt.passes.loop.indexing import IndexedOp, Knowledge, is_inside
from tcopt.passes.loop.store_forwarding import Piece, StoreForwarding
from tcopt.passes.loop.table_folds import TableFolds
from tcopt.support.affine import Atom, Dim, LinearSum, linear_sum, simplify, substitute, to_expr
from tcopt.support.errors import PassFailedError


@dataclass
class _Plan:
    """How to write an op's index expressions for given numbers of the unrolled variables."""

    kept: list[SSAValue]
    """The index values that are not unrolled."""
    unrolled: list[SSAValue]
    parts: list[tuple[AffineExpr | None, int, list[tuple[SSAValue, int]]]] | None
    """For each expression the part over `kept`, a constant, and the unrolled terms; None
    when a division mixes them."""
    fixed: list[AffineExpr]
    """The expressions over `kept` followed by `unrolled`."""
    maps: dict[tuple[int, ...], AffineMapAttr]
    leading: tuple[SSAValue, ...] = ()
    """The operands in front of the indices."""
    mask: SSAValue | None = None


class _Copies:
    """Values of earlier copies that a copy may take, as long as control flow is straight.

    Only loads, and ops of one operand on them such as broadcasts: that is what the copies of a
    tile have in common. A product stays apart, for each sum may be fused with its own.
    """

    def __init__(self) -> None:
        self.loads: dict[SSAValue, dict[Hashable, SSAValue]] = {}
        """By buffer, what was loaded since it was last written."""
        self.moved: dict[tuple[Operation, SSAValue], SSAValue] = {}

    def clear(self) -> None:
        """Another region begins or ends, or any buffer may have been written."""
        self.loads.clear()
        self.moved.clear()


class Unroller:
    """Unrolls one loop and the unrolled loops inside it."""

    def __init__(self, known: Knowledge):
        self.known = known
        self.shared = Knowledge(dict(known.ranges), list(known.facts), known.lanes)
        """What holds in every copy, where `known` has also what one copy's guards say."""
        self.numbers: dict[SSAValue, int] = {}
        self.values: dict[SSAValue, SSAValue] = {}
        self.plans: dict[Operation, _Plan] = {}
        self.always_on: set[SSAValue] = set()
        """Masks of the original body that are on in all lanes of the current copy."""
        self.always_off: set[SSAValue] = set()
        """Those that are off in all lanes."""
        self.constants: dict[Operation, Operation] = {}
        self.tables = TableFolds()
        self.copies = _Copies()
        self.registers = StoreForwarding()
        self.handlers: dict[type[Operation], Callable[[Any, list[Operation]], None]] = {
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
        }

    def run(self, op: loop.ForOp) -> list[Operation]:
        """The ops that stand for all iterations."""
        result: list[Operation] = []
        self._copies(op, result)
        self.registers.write_all(result)
        return [*self.constants.values(), *result]

    def _copies(self, op: loop.ForOp, result: list[Operation]) -> None:
        for number in range(op.trip_count):
            self.numbers[op.induction_variable] = number
            self._ops(op.body.block, result)

    def _ops(self, block: Block, result: list[Operation]) -> None:
        for op in block.ops:
            self.handlers.get(type(op), self._plain)(op, result)

    def _inner(self, block: Block, outer: list[Operation]) -> list[Operation]:
        """The copies of ops in a region, which reuse none from around it, nor the other way."""
        inner: list[Operation] = []
        self._forget(outer)
        self._ops(block, inner)
        self._forget(inner)
        return inner

    def _forget(self, result: list[Operation]) -> None:
        """What follows need not see the same memory."""
        self.copies.clear()
        self.registers.write_all(result)

    def _reject_block(self, op: loop.BlockOp, result: list[Operation]) -> None:
        raise PassFailedError(
            f'block "{op.block_name.data}" is not lowered', op=op, hint="run lower-blocks first"
        )

    def _index(self, op: loop.IndexOp, result: list[Operation]) -> None:
        map, indices = self._access(op)
        new = loop.IndexOp.create(
            operands=indices, result_types=[IndexType()], properties={"map": map}
        )
        self._finish(op, new, result)

    def _prefetch(self, op: loop.PrefetchOp, result: list[Operation]) -> None:
        map, indices = self._access(op)
        locality = op.locality.value.data
        result.append(loop.PrefetchOp(op.memref, map.data, indices, locality))

    def _finish(self, old: Operation, new: Operation, result: list[Operation]) -> None:
        result.append(new)
        for before, after in zip(old.results, new.results, strict=True):
            after.name_hint = before.name_hint
            self.values[before] = after

    def _get(self, value: SSAValue) -> SSAValue:
        return self.values.get(value, value)

    def _plan(self, op: IndexedOp) -> _Plan:
        plan = self.plans.get(op)
        if plan is None:
            plan = self.plans[op] = _make_plan(
                op.map.data.results, op.indices, self.numbers, self.shared
            )
            if isinstance(op, loop.LoadOp):
                plan.leading, plan.mask = (op.memref,), op.mask
            elif isinstance(op, loop.StoreOp):
                plan.leading, plan.mask = (op.value, op.memref), op.mask
        return plan

    def _access(self, op: IndexedOp) -> tuple[AffineMapAttr, list[SSAValue]]:
        """The map and the index operands of a copy."""
        plan = self._plan(op)
        numbers = self.numbers
        key = tuple([numbers[value] for value in plan.unrolled])
        map = plan.maps.get(key)
        if map is None:
            if plan.parts is not None:
                results = [_with_constant(part, numbers) for part in plan.parts]
            else:
                ranges = [*self.shared.ranges_of(plan.kept), *((n, n) for n in key)]
                results = [simplify(expr, ranges) for expr in plan.fixed]
            map = plan.maps[key] = AffineMapAttr(AffineMap(len(plan.kept), 0, tuple(results)))
        values = self.values
        return map, [values.get(value, value) for value in plan.kept]

    def _load(self, op: loop.LoadOp, result: list[Operation]) -> None:
        if op.mask is not None and op.mask in self.always_off:
            default = 0 if op.default is None else op.default.value.data
            self._constant(op.result, default, result)
            return
        buffer, piece = self._get(op.memref), self._register_piece(op, result)
        if piece is not None and (held := self.registers.load(buffer, piece, result)) is not None:
            self.values[op.result] = held
            return
        operands, properties = self._memory_access(op)
        loads = self.copies.loads.setdefault(operands[0], {})
        # Equal maps of one op's copies are one object.
        key = (id(op), id(properties["map"]), len(operands), *operands[1:])
        known = loads.get(key)
        # What nothing has used so far, as a table's entry was zero, is loaded where it is needed.
        if known is not None and known.first_use is not None:
            self.values[op.result] = known
            return
        new = loop.LoadOp.create(
            operands=operands,
            result_types=[op.results[0].type],
            properties=properties,
            attributes=op.attributes,
        )
        if "default" in properties and new.mask is None and is_inside(new, self.known):
            new.default = None
        self._finish(op, new, result)
        loads[key] = new.result
        if piece is not None:
            self.registers.loaded(buffer, piece, new.result)

    def _register_piece(
        self, op: loop.LoadOp | loop.StoreOp, result: list[Operation]
    ) -> Piece | None:
        """What a copy of an access touches of a buffer in registers, if that is known.

        If not, it is made to see all that was stored before.
        """
        registers = self.registers
        if not registers.is_private(op.memref):
            return None
        piece = None
        mask = self._plan(op).mask
        if mask is None or mask in self.always_on:
            piece = registers.piece(op, self._access(op)[0])
        if piece is None:
            registers.write(self._get(op.memref), result)
        return piece

    def _store(self, op: loop.StoreOp, result: list[Operation]) -> None:
        if op.mask is not None and op.mask in self.always_off:
            return
        if (piece := self._register_piece(op, result)) is not None:
            map, buffer = self._access(op)[0], self._get(op.memref)
            self.copies.loads.pop(buffer, None)
            self.registers.store(op, map, self._get(op.value), buffer, piece, result)
            return
        value = op.value.owner
        if isinstance(value, SelectOp) and value.cond in self.always_off:
            kept = value.rhs.owner
            if isinstance(kept, loop.LoadOp) and (kept.memref, kept.map, *kept.indices) == (
                op.memref,
                op.map,
                *op.indices,
            ):
                # It would store what is there, unless that was written meanwhile.
                loaded, memref = self._get(value.rhs), self._get(op.memref)
                if result[-1:] == [loaded.owner]:
                    self.copies.loads.pop(memref, None)
                    result.pop()
                    return
                if loaded in self.copies.loads.get(memref, {}).values():
                    return
        operands, properties = self._memory_access(op)
        self.copies.loads.pop(operands[1], None)
        new = loop.StoreOp.create(
            operands=operands, properties=properties, attributes=op.attributes
        )
        result.append(new)

    def _memory_access(
        self, op: loop.LoadOp | loop.StoreOp
    ) -> tuple[list[SSAValue], dict[str, Attribute]]:
        """Operands and properties of a copy, without a mask that is full in this copy."""
        map, indices = self._access(op)
        plan, values = self.plans[op], self.values
        operands = [values.get(value, value) for value in plan.leading]
        segments = [1] * len(operands) + [len(indices), 0]
        operands += indices
        if plan.mask is not None and plan.mask not in self.always_on:
            operands.append(self._get(plan.mask))
            segments[-1] = 1
        properties = dict(op.properties)
        properties["map"] = map
        properties["operandSegmentSizes"] = _segments(*segments)
        return operands, properties

    def _for(self, op: loop.ForOp, result: list[Operation]) -> None:
        if op.loop_kind is loop.LoopKind.UNROLLED:
            self._copies(op, result)
            return
        body = Block(arg_types=[IndexType()])
        body.args[0].name_hint = op.induction_variable.name_hint
        new = loop.ForOp.create(
            properties=op.properties, attributes=op.attributes, regions=[Region(body)]
        )
        self.values[op.induction_variable] = body.args[0]
        for known in (self.known, self.shared):
            known.enter_loop(op)
        self.known.enter_loop(new)
        body.add_ops(self._inner(op.body.block, result))
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
        body.add_ops(inner)
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
        """Whether all lanes are on the same side of a mask's condition, outside of it."""
        low, high = self.known.bounds(expr, indices)
        moved = step * last
        return max(high, high + moved) < 0 or min(low, low + moved) >= extent

    def _constant(self, old: SSAValue, number: float, result: list[Operation]) -> None:
        """All lanes of a value are one number."""
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
        if not op.operands and op.has_trait(Pure):
            if (known := self.constants.get(op)) is None:
                known = self.constants[op] = op.clone()
                known.results[0].name_hint = op.results[0].name_hint
            self.values[op.results[0]] = known.results[0]
            return
        operands = [self._operand(operand, result) for operand in op.operands]
        if not _is_pure(type(op)):
            self._forget(result)
        elif len(operands) == 1 and len(op.results) == 1:
            known_value = self.copies.moved.get((op, operands[0]))
            if known_value is not None:
                self.values[op.results[0]] = known_value
                return
        if op.regions:
            mapper = dict(zip(op.operands, operands, strict=True))
            new = op.clone({**self.values, **mapper})
        else:
            new = type(op).create(
                operands=operands,
                result_types=[r.type for r in op.results],
                properties=op.properties,
                attributes=op.attributes,
            )
        self._finish(op, new, result)
        if len(operands) == 1 and len(op.results) == 1:
            self.copies.moved[op, operands[0]] = new.results[0]

    def _fold(self, op: ScaleOp | arith.AddfOp, result: list[Operation]) -> None:
        """A product with a table's entry or a sum, which may become simpler in this copy."""
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
        constant = arith.ConstantOp(IntegerAttr(number, IndexType()))
        result.append(constant)
        return constant.result


_DROPS_FULL_MASK = (loop.LoadOp, loop.StoreOp)


def _make_plan(
    exprs: Sequence[AffineExpr],
    operands: Sequence[SSAValue],
    numbers: dict[SSAValue, int],
    known: Knowledge,
) -> _Plan:
    kept = [value for value in operands if value not in numbers]
    unrolled = [value for value in operands if value in numbers]
    order = {value: i for i, value in enumerate([*kept, *unrolled])}
    dims: list[AffineExpr] = [AffineDimExpr(order[value]) for value in operands]
    fixed = [substitute(expr, dims) for expr in exprs]
    # Every copy must get its own number, so nothing may be concluded from ranges here.
    ranges = known.ranges_of([*kept, *unrolled])
    parts: list[tuple[AffineExpr | None, int, list[tuple[SSAValue, int]]]] = []
    for expr in fixed:
        total = linear_sum(expr, ranges)
        moving: list[tuple[SSAValue, int]] = []
        rest: list[tuple[Atom, int]] = []
        for atom, factor in total.terms:
            if isinstance(atom, Dim) and atom.position >= len(kept):
                moving.append((unrolled[atom.position - len(kept)], factor))
                continue
            used = {atom.position} if isinstance(atom, Dim) else to_expr(atom.operand).used_dims()
            if any(position >= len(kept) for position in used):
                return _Plan(kept, unrolled, None, fixed, {})
            rest.append((atom, factor))
        base = to_expr(LinearSum(tuple(rest), 0)) if rest else None
        parts.append((base, total.constant, moving))
    return _Plan(kept, unrolled, parts, fixed, {})


def _with_constant(
    part: tuple[AffineExpr | None, int, list[tuple[SSAValue, int]]], numbers: dict[SSAValue, int]
) -> AffineExpr:
    base, constant, moving = part
    for value, factor in moving:
        constant += factor * numbers[value]
    if base is None:
        return AffineConstantExpr(constant)
    return base + AffineConstantExpr(constant) if constant else base


@cache
def _is_pure(kind: type[Operation]) -> bool:
    return kind.has_trait(Pure)


@cache
def _segments(*sizes: int) -> DenseArrayBase:
    return DenseArrayBase.from_list(i32, sizes)
