"""Plans for copying ops in unrolled loops, which share the work that is the same for all copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.dialects.builtin import AffineMapAttr, DenseArrayBase, MemRefType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.passes.loop.analysis.indexing import IndexedOp, Knowledge
from tcopt.passes.loop.unroll.store_forwarding import Piece, is_private, piece_at, piece_length
from tcopt.support.arithmetic.affine import (
    Atom,
    Dim,
    LinearSum,
    linear_sum,
    simplify,
    substitute,
    to_expr,
    used_dims,
)
from tcopt.support.ir.literals import segment_sizes
from tcopt.support.ir.pure_values import is_pure


class UnrolledAccess(NamedTuple):
    """An access at given values of the unrolled variables."""

    map: AffineMapAttr
    properties: dict[str, Attribute]
    """Properties of a copy without a mask."""
    piece: Piece | None
    """The piece of a register buffer that is accessed, if known."""


@dataclass
class AccessPlan:
    """Plan for an op's index expressions at given values of the unrolled variables."""

    op: IndexedOp
    kept: list[SSAValue]
    """The index values that are not unrolled."""
    unrolled: list[SSAValue]
    parts: list[tuple[AffineExpr | None, int, list[tuple[SSAValue, int]]]] | None
    """For each expression: its part over `kept`, a constant, and the unrolled terms; None if these
    are mixed in a division."""
    fixed: list[AffineExpr]
    """The expressions over `kept` followed by `unrolled`."""
    places: dict[tuple[int, ...], UnrolledAccess] = field(
        default_factory=dict[tuple[int, ...], UnrolledAccess]
    )
    leading: tuple[SSAValue, ...] = ()
    """The operands before the indices."""
    mask: SSAValue | None = None
    in_registers: bool = False
    """Whether it accesses a register buffer that has no uses other than loads and stores."""
    shape: Sequence[int] = ()
    length: int | None = None
    """For such a buffer: its shape, and the number of contiguous elements of the access."""

    def place(self, numbers: dict[SSAValue, int], known: Knowledge) -> UnrolledAccess:
        """Return the access at these values of the unrolled variables."""
        key = tuple([numbers[value] for value in self.unrolled])
        found = self.places.get(key)
        if found is None:
            found = self.places[key] = self._new_place(key, numbers, known)
        return found

    def _new_place(
        self, key: tuple[int, ...], numbers: dict[SSAValue, int], known: Knowledge
    ) -> UnrolledAccess:
        if self.parts is not None:
            results = [_with_constant(part, numbers) for part in self.parts]
        else:
            ranges = [*known.ranges_of(self.kept), *((n, n) for n in key)]
            results = [simplify(expr, ranges) for expr in self.fixed]
        map = AffineMapAttr(AffineMap(len(self.kept), 0, tuple(results)))
        properties = {**self.op.properties, "map": map}
        if self.leading:
            properties["operandSegmentSizes"] = self.segments(masked=False)
        piece = None
        if self.in_registers and self.length is not None:
            piece = piece_at(results, self.shape, self.length)
        return UnrolledAccess(map, properties, piece)

    def segments(self, *, masked: bool) -> DenseArrayBase:
        """Return the segment sizes of a copy's operands."""
        return segment_sizes(*(1 for _ in self.leading), len(self.kept), int(masked))


def plan_access(op: IndexedOp, numbers: dict[SSAValue, int], known: Knowledge) -> AccessPlan:
    """Return the plan of an op.

    Args:
        numbers: values of the unrolled variables.
        known: facts that hold in every copy.
    """
    operands = list(op.indices)
    kept = [value for value in operands if value not in numbers]
    unrolled = [value for value in operands if value in numbers]
    order = {value: i for i, value in enumerate([*kept, *unrolled])}
    dims: list[AffineExpr] = [AffineDimExpr(order[value]) for value in operands]
    fixed = [substitute(expr, dims) for expr in op.map.data.results]
    # Values differ between copies, so nothing may be derived from their current ranges.
    ranges = known.ranges_of([*kept, *unrolled])
    plan = AccessPlan(op, kept, unrolled, _parts(fixed, kept, unrolled, ranges), fixed)
    if isinstance(op, loop.LoadOp):
        plan.leading, plan.mask = (op.memref,), op.mask
    elif isinstance(op, loop.StoreOp):
        plan.leading, plan.mask = (op.value, op.memref), op.mask
    else:
        return plan
    if is_private(op.memref):
        type_ = op.memref.type
        assert isa(type_, MemRefType)
        plan.in_registers, plan.shape, plan.length = True, type_.get_shape(), piece_length(op)
    return plan


def _parts(
    exprs: Sequence[AffineExpr],
    kept: Sequence[SSAValue],
    unrolled: Sequence[SSAValue],
    ranges: Sequence[tuple[int, int]],
) -> list[tuple[AffineExpr | None, int, list[tuple[SSAValue, int]]]] | None:
    parts: list[tuple[AffineExpr | None, int, list[tuple[SSAValue, int]]]] = []
    for expr in exprs:
        total = linear_sum(expr, ranges)
        moving: list[tuple[SSAValue, int]] = []
        rest: list[tuple[Atom, int]] = []
        for atom, factor in total.terms:
            if isinstance(atom, Dim) and atom.position >= len(kept):
                moving.append((unrolled[atom.position - len(kept)], factor))
                continue
            used = {atom.position} if isinstance(atom, Dim) else used_dims(to_expr(atom.operand))
            if any(position >= len(kept) for position in used):
                return None
            rest.append((atom, factor))
        base = to_expr(LinearSum(tuple(rest), 0)) if rest else None
        parts.append((base, total.constant, moving))
    return parts


def _with_constant(
    part: tuple[AffineExpr | None, int, list[tuple[SSAValue, int]]], numbers: dict[SSAValue, int]
) -> AffineExpr:
    base, constant, moving = part
    for value, factor in moving:
        constant += factor * numbers[value]
    if base is None:
        return AffineConstantExpr(constant)
    return base + AffineConstantExpr(constant) if constant else base


class PlainPlan:
    """Properties that all copies of an op without indices share."""

    def __init__(self, op: Operation):
        self.operands = tuple(op.operands)
        self.result_types = [result.type for result in op.results]
        self.is_pure = is_pure(type(op))
        self.moves = len(op.operands) == 1 and len(op.results) == 1
        """Whether it has one operand and one result."""
