"""Emission of kernel ops into nested regions; pure values are emitted once, as far out as possible.

While a function is written, every open region is a *level*, whose block can still grow: the op that
holds the region is added to its parent after the region is complete. A pure op goes to the
innermost level that defines one of its operands, and is emitted there only once. Index sums are
built from the outermost variables inwards and end with their constant, so loop-invariant parts are
hoisted and unrolled accesses share everything but an addition.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)
from xdsl.transforms.canonicalization_patterns.utils import const_evaluate_operand
from xdsl.utils.hints import isa

from tcopt.dialects.arith_ import CmpiOp, IndexCastOp, IndexCastUIOp
from tcopt.dialects.size import IndexOp, Measure
from tcopt.passes.loop.analysis.indexing import Knowledge
from tcopt.support.arithmetic.affine import Dim, FloorDiv, LinearSum, Mod, sum_range
from tcopt.support.arithmetic.intervals import UNBOUNDED
from tcopt.support.ir.pure_values import PureValues
from tcopt.support.ir.quick_ir import AttributeNumbers, append_op

INDEX = IndexType()
_CONVERSIONS = (IndexCastOp, IndexCastUIOp)


@dataclass
class Level:
    """An open region and the values that can be reused in it."""

    block: Block
    is_loop: bool
    pure: PureValues
    loads: dict[SSAValue, dict[Hashable, SSAValue]] = field(
        default_factory=dict[SSAValue, dict[Hashable, SSAValue]]
    )
    """Values already loaded from each buffer, by indices and type."""


class LevelWriter:
    """Writes ops into a stack of open levels."""

    def __init__(self, outermost: Block):
        self._attributes = AttributeNumbers()
        self.levels = [Level(outermost, False, PureValues(self._attributes))]
        self.location: LocationAttr = UnknownLoc()
        """Location of the ops being written."""
        self.depth: dict[SSAValue, int] = dict.fromkeys(outermost.args, 0)
        self.known = Knowledge()
        self.sizes: set[SSAValue] = set()
        """The arguments that are sizes."""
        self.constants: dict[int, SSAValue] = {}
        self.indices: dict[Hashable, tuple[AffineExpr, SSAValue]] = {}
        """Index values by the identity of their expression, valid under the current guards."""

    @property
    def current(self) -> Level:
        return self.levels[-1]

    @contextmanager
    def inside_guard(
        self, exprs: Sequence[AffineExpr], operands: Sequence[SSAValue], extents: Sequence[int]
    ) -> Generator[None]:
        """Assume a guard's conditions while the context is open."""
        saved, self.indices = self.indices, {}
        with self.known.inside_guard(exprs, operands, extents):
            yield
        self.indices = saved

    @contextmanager
    def level(self, block: Block, *, is_loop: bool) -> Generator[None]:
        """Open a region; ops are written into its block until the context closes."""
        self.levels.append(Level(block, is_loop, PureValues(self._attributes)))
        for argument in block.args:
            self.depth[argument] = len(self.levels) - 1
        yield
        self.levels.pop()

    def write(self, op: Operation) -> Operation:
        """Add an op to the current level."""
        append_op(self.levels[-1].block, op)
        op.location = self.location
        for result in op.results:
            self.depth[result] = len(self.levels) - 1
        return op

    def pure(
        self,
        op_class: type[Operation],
        operands: Sequence[SSAValue],
        result_type: Attribute,
        properties: Mapping[str, Attribute] = MappingProxyType({}),
    ) -> SSAValue:
        """Return the result of a pure op, emitted at the level of its innermost operand.

        The conversion of a constant index is a constant, so that backends see its value.
        """
        if op_class in _CONVERSIONS and (number := _converted(operands[0], result_type)):
            return self.number(number)
        depth = max([self.depth[operand] for operand in operands], default=0)
        level = self.levels[depth]
        append = partial(append_op, level.block)
        found = level.pure.make(op_class, operands, result_type, properties, append)
        self.depth[found] = depth
        return found

    def constant(self, value: int) -> SSAValue:
        """Return an index constant."""
        found = self.constants.get(value)
        if found is None:
            found = self.attribute(IntegerAttr(value, INDEX), INDEX)
            found.name_hint = f"c{value}" if value >= 0 else f"c_{-value}"
            self.constants[value] = found
        return found

    def attribute(self, value: Attribute, type: Attribute) -> SSAValue:
        """Return a constant of any type."""
        return self.pure(arith.ConstantOp, (), type, {"value": value})

    def number(self, value: IntegerAttr | FloatAttr) -> SSAValue:
        """Return a scalar constant."""
        return self.attribute(value, value.type)

    def index(self, expr: AffineExpr, operands: Sequence[SSAValue]) -> SSAValue:
        """Return the value of an index expression over kernel values."""
        constant = 0
        match expr:
            case AffineDimExpr():
                low, high = self.known.ranges.get(operands[expr.position], UNBOUNDED)
                return self.constant(low) if low == high else operands[expr.position]
            case AffineConstantExpr():
                return self.constant(expr.value)
            case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add, rhs=AffineConstantExpr() as rhs):
                expr, constant = expr.lhs, rhs.value
            case _:
                pass
        # Unrolled accesses share the expression without its constant.
        key = (id(expr), *operands)
        known = self.indices.get(key)
        if known is None or known[0] is not expr:
            value = self.sum(self.known.linear(expr, operands), operands)
            known = self.indices[key] = (expr, value)
        return self._plus(known[1], constant)

    def sum(self, total: LinearSum, operands: Sequence[SSAValue]) -> SSAValue:
        """Return the value of a linear sum over kernel values."""
        parts: list[tuple[int, SSAValue]] = []
        for atom, factor in total.terms:
            if isinstance(atom, Dim):
                value = operands[atom.position]
            else:
                value = self._divided(atom, operands)
            if factor != 1:
                value = self.binary(arith.MuliOp, value, self.constant(factor))
            parts.append((self.depth[value], value))
        if not parts:
            return self.constant(total.constant)
        parts.sort(key=lambda part: part[0])
        result = parts[0][1]
        for _, value in parts[1:]:
            result = self.binary(arith.AddiOp, result, value)
        return self._plus(result, total.constant)

    def _plus(self, value: SSAValue, constant: int) -> SSAValue:
        if not constant:
            return value
        if (number := const_evaluate_operand(value)) is not None:
            return self.constant(number + constant)
        return self.binary(arith.AddiOp, value, self.constant(constant))

    def binary(
        self, op_class: type[arith.AddiOp | arith.MuliOp | arith.SubiOp], a: SSAValue, b: SSAValue
    ) -> SSAValue:
        """Return the result of an operation on two indices."""
        return self.pure(op_class, (a, b), INDEX, NO_OVERFLOW)

    def index_op(self, op_class: IndexOp, a: SSAValue, b: SSAValue) -> SSAValue:
        """Return the result of an operation on the values of sizes."""
        is_ring = issubclass(op_class, arith.AddiOp | arith.MuliOp | arith.SubiOp)
        return self.pure(op_class, (a, b), INDEX, NO_OVERFLOW if is_ring else {})

    def _divided(self, atom: FloorDiv | Mod, operands: Sequence[SSAValue]) -> SSAValue:
        """Return a floor division or modulo, with a correction if the operand may be negative."""
        ranges = self.known.ranges_of(operands)
        low, _ = sum_range(atom.operand, ranges)
        inner = self.sum(atom.operand, operands)
        divisor = self.constant(atom.divisor)
        if low >= 0:
            op_class = arith.DivUIOp if isinstance(atom, FloorDiv) else arith.RemUIOp
            return self.pure(op_class, (inner, divisor), INDEX)
        quotient = self.pure(arith.FloorDivSIOp, (inner, divisor), INDEX)
        if isinstance(atom, FloorDiv):
            return quotient
        whole = self.binary(arith.MuliOp, quotient, divisor)
        return self.binary(arith.SubiOp, inner, whole)

    def is_inside(
        self, expr: AffineExpr, operands: Sequence[SSAValue], extent: Measure
    ) -> SSAValue:
        """Return an i1 for `0 <= expr < extent`. One unsigned comparison covers both ends."""
        value = self.index(expr, operands)
        limit = self.constant(extent) if isinstance(extent, int) else extent
        return self.compare(value, limit, "ult")

    def compare(self, lhs: SSAValue, rhs: SSAValue, predicate: str) -> SSAValue:
        """Return the result of an integer comparison."""
        op = CmpiOp(lhs, rhs, predicate)
        properties, type_ = op.properties, op.result.type
        op.erase()
        return self.pure(CmpiOp, (lhs, rhs), type_, properties)

    def all_of(self, conditions: Sequence[SSAValue]) -> SSAValue:
        """Return the conjunction of i1 values, outermost first."""
        ordered = sorted(conditions, key=lambda value: self.depth[value])
        result = ordered[0]
        for value in ordered[1:]:
            result = self.pure(arith.AndIOp, (result, value), result.type)
        return result

    def loaded(self, memref: SSAValue, key: Hashable) -> SSAValue | None:
        """Return a value loaded earlier from a buffer that was not written since; None if there is
        none.
        """
        for level in reversed(self.levels):
            found = level.loads.get(memref, {}).get(key)
            if found is not None or level.is_loop:
                return found
        return None

    def remember_load(self, memref: SSAValue, key: Hashable, value: SSAValue) -> None:
        """Let later loads with the same indices reuse this one."""
        self.current.loads.setdefault(memref, {})[key] = value

    def forget_loads(self, memref: SSAValue) -> None:
        """Drop the loads of a buffer that was written."""
        for level in self.levels:
            level.loads.pop(memref, None)

    def forget_all_loads(self) -> None:
        """Drop all loads, after an op of unknown effect."""
        for level in self.levels:
            level.loads.clear()


def _converted(index: SSAValue, type: Attribute) -> IntegerAttr | None:
    """Return a constant index as an integer of another type; None if it is not constant."""
    source = index.owner
    if not isinstance(source, arith.ConstantOp) or not isa(type, IntegerType):
        return None
    assert isinstance(source.value, IntegerAttr)
    return IntegerAttr(source.value.value.data, type, truncate_bits=True)


def _default_overflow() -> dict[str, Attribute]:
    probe = Block(arg_types=[INDEX, INDEX])
    op = arith.AddiOp(probe.args[0], probe.args[1])
    properties = dict(op.properties)
    op.erase()
    return properties


NO_OVERFLOW = _default_overflow()
