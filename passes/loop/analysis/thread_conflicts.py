"""Detection of conflicting accesses of the threads of a block, by enumerating all threads.

A block has at most 1024 threads, and between two barriers each accesses few elements. The elements
that each thread accesses can therefore be tabulated, and the result is exact. Values that two
accesses have in common, such as the block's index in the grid, cancel if they contribute equally to
both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import product
from math import lcm, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.passes.loop.analysis.indexing import Knowledge
from tcopt.support.arithmetic.affine import Atom, Dim, LinearSum, Mod, to_expr, used_dims

_MOST_WORK = 1 << 22
"""Maximum number of thread positions to enumerate for a pair of accesses."""

Numbers = NDArray[np.int64]
Variable = SSAValue | loop.ThreadAxis
"""A variable of an index: that of a loop, or for a bound loop its axis, which has one value per
thread."""


class Conflict(Enum):
    """Result of checking two accesses of different threads."""

    NONE = 0
    POSSIBLE = 1
    CERTAIN = 2


@dataclass(frozen=True, eq=False)
class ThreadAccess:
    """A load or store with its enclosing loops in a launch."""

    op: loop.LoadOp | loop.StoreOp
    known: Knowledge

    @property
    def buffer(self) -> SSAValue:
        return self.op.memref

    @property
    def is_write(self) -> bool:
        return isinstance(self.op, loop.StoreOp)

    @cached_property
    def loops(self) -> tuple[loop.ForOp, ...]:
        """The enclosing loops, outermost first."""
        return tuple(loop.enclosing_loops(self.op))[::-1]

    @cached_property
    def index(self) -> LinearSum:
        """Offset of the first accessed element, over the op's index operands.

        The parts of a fused loop's variable are recombined if they index a buffer of the fused
        extent.
        """
        flat: AffineExpr = AffineConstantExpr(0)
        shape = buffer_shape(self.buffer)
        for expr, extent in zip(self.op.map.data.results, shape, strict=True):
            flat = flat * extent + expr
        return self.known.linear(flat, self.op.indices)

    @cached_property
    def reach(self) -> Numbers:
        """Offset of each lane of a vector."""
        offsets = np.zeros(1, np.int64)
        value = self.op.result if isinstance(self.op, loop.LoadOp) else self.op.value
        if not isa(value.type, VectorType):
            return offsets
        strides = np.cumprod([1, *buffer_shape(self.buffer)[:0:-1]])[::-1]
        for steps, extent in zip(self.op.lane_steps, value.type.get_shape(), strict=True):
            step = int(np.dot(steps, strides))
            offsets = (offsets[:, None] + step * np.arange(extent)).ravel()
        return offsets

    @cached_property
    def variables(self) -> tuple[Variable | None, ...]:
        """Variable of each index operand; None for computed values."""
        return tuple(_variable(value) for value in self.op.indices)

    @cached_property
    def is_computed(self) -> bool:
        """Whether the index depends on values other than loop variables."""
        used = _dims(self.index)
        return any(self.variables[dim] is None for dim in used)


@dataclass(frozen=True)
class Order:
    """Order of two accesses in time.

    Attributes:
        common: loops whose iteration is the same for both.
        carrier: loop of which the second access is in a later iteration.
        is_next: whether that is the next iteration, or any later one.
    """

    common: frozenset[loop.ForOp]
    carrier: loop.ForOp | None = None
    is_next: bool = False


class BlockOfThreads:
    """The threads of a launch's blocks."""

    def __init__(self, extents: Mapping[loop.ThreadAxis, int]):
        self.extents = {axis: extents.get(axis, 1) for axis in loop.THREAD_AXES}
        self.count = prod(self.extents.values())
        numbers = np.arange(self.count, dtype=np.int64)
        self.positions: dict[loop.ThreadAxis, Numbers] = {}
        for axis, extent in self.extents.items():
            self.positions[axis] = numbers % extent
            numbers = numbers // extent

    def conflict(self, first: ThreadAccess, second: ThreadAccess, order: Order) -> Conflict:
        """Check whether two different threads may access the same element, one by each access."""
        if first.is_computed or second.is_computed:
            return Conflict.POSSIBLE
        if order.carrier is not None:
            # If the accesses never alias in any iteration, pairs of iterations need no check.
            anytime = _Pair(self, first, second, Order(order.common - {order.carrier}))
            if anytime.decide() is Conflict.NONE:
                return Conflict.NONE
        return _Pair(self, first, second, order).decide()


@dataclass
class _Pair:
    threads: BlockOfThreads
    first: ThreadAccess
    second: ThreadAccess
    order: Order

    def decide(self) -> Conflict:
        """Check whether two threads access the same element in any of the relevant iterations."""
        places = self.places()
        if places is None:
            return Conflict.POSSIBLE
        found = any(self.meet(at_first, at_second) for at_first, at_second in places)
        return Conflict.CERTAIN if found else Conflict.NONE

    def places(self) -> Sequence[tuple[dict[Variable, int], dict[Variable, int]]] | None:
        """Return pairs of values of the outer variables, one for each access; None if too many."""
        choices: list[list[tuple[Variable, int, int]]] = []
        for variable, trips in self._outer().items():
            period = self._period(variable)
            carrier = self.order.carrier
            if carrier is not None and variable is carrier.induction_variable:
                reach = min(trips, period) if period else trips
                steps = range(1, 2 if self.order.is_next else max(reach, 2))
                starts = range(1 if self._is_linear(variable) else reach)
                choices.append([(variable, s, s + d) for d in steps for s in starts])
            elif self._is_linear(variable):
                choices.append([(variable, 0, 0)])
            else:
                values = range(min(trips, period) if period else trips)
                choices.append([(variable, value, value) for value in values])
        count = prod(len(each) for each in choices)
        work = max(self._free_count(self.first), self._free_count(self.second))
        if count * work * self.threads.count > _MOST_WORK:
            return None
        return [
            ({v: a for v, a, _ in chosen}, {v: b for v, _, b in chosen})
            for chosen in product(*choices)
        ]

    def meet(self, at_first: Mapping[Variable, int], at_second: Mapping[Variable, int]) -> bool:
        """Whether two threads access the same element at these values of the outer variables."""
        places = self._touched(self.first, at_first), self._touched(self.second, at_second)
        low = min((int(p.min()) for p, _ in places if p.size), default=0)
        size = max((int(p.max()) for p, _ in places if p.size), default=0) - low + 1
        tables: list[tuple[Numbers, NDArray[np.bool_]]] = []
        for elements, who in places:
            owner = np.full(size, -1, np.int64)
            several = np.zeros(size, np.bool_)
            owner[elements - low] = who
            several[(elements - low)[owner[elements - low] != who]] = True
            tables.append((owner, several))
        (owner_a, several_a), (owner_b, several_b) = tables
        both = (owner_a >= 0) & (owner_b >= 0)
        return bool((both & (several_a | several_b | (owner_a != owner_b))).any())

    def _touched(
        self, access: ThreadAccess, outer: Mapping[Variable, int]
    ) -> tuple[Numbers, Numbers]:
        """Return the accessed elements, and the thread of each."""
        free = self._free(access)
        count = prod(each.trip_count for each in free)
        environment: dict[Variable, Any] = dict(outer)
        for axis, positions in self.threads.positions.items():
            environment[axis] = positions[:, None]
        inner = np.arange(count, dtype=np.int64)
        for each in reversed(free):
            environment[each.induction_variable] = (inner % each.trip_count)[None, :]
            inner = inner // each.trip_count
        active = np.ones((self.threads.count, count), np.bool_)
        for each in access.loops:
            if loop.is_thread(each) and each.axis is not None:
                active &= environment[each.axis.data] < each.trip_count
        for guard in _guards(access.op):
            self._narrow(guard, environment, active)
        values = [environment.get(v, 0) if v is not None else 0 for v in access.variables]
        elements = np.broadcast_to(_evaluate(to_expr(access.index), values), active.shape)
        who = np.broadcast_to(np.arange(self.threads.count)[:, None], active.shape)
        spread = elements[active][:, None] + access.reach
        return spread.ravel(), np.broadcast_to(who[active][:, None], spread.shape).ravel()

    def _narrow(
        self, guard: loop.GuardOp, environment: Mapping[Variable, Any], active: NDArray[np.bool_]
    ) -> None:
        """Mask the positions at which a guard does not hold, as far as its values are known."""
        outer = self._outer()
        variables = [_variable(value) for value in guard.indices]
        for expr, extent in zip(guard.map.data.results, guard.condition_extents, strict=True):
            used = [variables[dim] for dim in used_dims(expr)]
            if any(v is None or v not in environment for v in used):
                continue
            if any(v in outer and self._is_linear(v) for v in used if v is not None):
                continue
            values = [environment.get(v, 0) if v is not None else 0 for v in variables]
            value = _evaluate(expr, values)
            active &= (value >= 0) & (value < extent)

    def _free(self, access: ThreadAccess) -> list[loop.ForOp]:
        """Return the loops around an access whose iterations are all enumerated."""
        fixed = self.order.common
        return [
            each
            for each in access.loops
            if each.axis is None and each not in fixed and each is not self.order.carrier
        ]

    def _free_count(self, access: ThreadAccess) -> int:
        return prod(each.trip_count for each in self._free(access)) * access.reach.size

    def _outer(self) -> dict[Variable, int]:
        """Return the variables that are fixed for each access, with the number of their values."""
        found: dict[Variable, int] = {}
        for access in (self.first, self.second):
            for each in access.loops:
                if each.axis is not None and each.axis.data in loop.BLOCK_AXES:
                    axis = each.axis.data
                    found[axis] = max(found.get(axis, 1), each.trip_count)
                elif each in self.order.common or each is self.order.carrier:
                    found[each.induction_variable] = each.trip_count
        return found

    def _is_linear(self, variable: Variable) -> bool:
        """Whether a variable has the same coefficient in both indices, and is in no division."""
        factors: set[int] = set()
        for access in (self.first, self.second):
            factor = 0
            for atom, coefficient in access.index.terms:
                if isinstance(atom, Dim):
                    factor += coefficient if access.variables[atom.position] == variable else 0
                elif variable in {access.variables[dim] for dim in _atom_dims(atom)}:
                    return False
            factors.add(factor)
        return len(factors) == 1

    def _period(self, variable: Variable) -> int | None:
        """Return the period of a variable's effect if it only occurs in remainders, or None."""
        periods: list[int] = []
        for access in (self.first, self.second):
            for atom, _ in access.index.terms:
                if variable not in {access.variables[dim] for dim in _atom_dims(atom)}:
                    continue
                if not isinstance(atom, Mod) or any(
                    not isinstance(inner, Dim) for inner, _ in atom.operand.terms
                ):
                    return None
                periods.append(atom.divisor)
        return lcm(*periods) if periods else 1


def _variable(value: SSAValue) -> Variable | None:
    found = loop.loop_of(value)
    if found is None:
        return None
    return value if found.axis is None else found.axis.data


def _guards(op: Operation) -> list[loop.GuardOp]:
    found: list[loop.GuardOp] = []
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, loop.FuncOp):
        if isinstance(parent, loop.GuardOp):
            found.append(parent)
        parent = parent.parent_op()
    return found


def _dims(total: LinearSum) -> set[int]:
    return set[int]().union(*(_atom_dims(atom) for atom, _ in total.terms))


def _atom_dims(atom: Atom) -> set[int]:
    return {atom.position} if isinstance(atom, Dim) else _dims(atom.operand)


def _evaluate(expr: AffineExpr, values: Sequence[Any]) -> Any:
    match expr:
        case AffineConstantExpr():
            return expr.value
        case AffineDimExpr():
            return values[expr.position]
        case AffineBinaryOpExpr():
            lhs, rhs = _evaluate(expr.lhs, values), _evaluate(expr.rhs, values)
            match expr.kind:
                case AffineBinaryOpKind.Add:
                    return lhs + rhs
                case AffineBinaryOpKind.Mul:
                    return lhs * rhs
                case AffineBinaryOpKind.FloorDiv:
                    return lhs // rhs
                case AffineBinaryOpKind.CeilDiv:
                    return -(-lhs // rhs)
                case AffineBinaryOpKind.Mod:
                    return lhs % rhs
        case _:
            raise ValueError(f"index expression {expr}")
