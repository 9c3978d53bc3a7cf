"""Dependence analysis: whether two accesses may touch the same element in two iterations.

`alias` compares two accesses to a buffer whose enclosing loops are in given relations, such as the
first in an earlier iteration of one loop, and both in the same iteration of another. Vector lanes
and tiles, the domains of blocks and the conditions of guards are taken into account. Loops that
are bound to the same thread axis share one variable, so that threads can be compared as iterations.

The variables of common loops are `x` for the first access and `x + e` for the second; other loops
have separate variables. Whether their indices can be equal is decided exactly
(`support.arithmetic.integer_points`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from tcopt.dialects.loop.access import LoadOp, StoreOp
from tcopt.dialects.loop.analysis import Access, accesses, block_of, buffer_shape
from tcopt.dialects.loop.attrs import ThreadAxis
from tcopt.dialects.loop.block import BlockOp, GuardOp, owning_block
from tcopt.dialects.loop.index_ops import IndexOp
from tcopt.dialects.loop.intrin import IntrinOp
from tcopt.dialects.loop.prefetch import PrefetchOp
from tcopt.dialects.loop.structure import ForOp, loop_of, path_to
from tcopt.support.arithmetic.affine import LinearSum, linear_sum, substitute, sum_range, used_dims
from tcopt.support.arithmetic.integer_points import Sum, System, Unknown, may_differ
from tcopt.support.arithmetic.intervals import Range, extents_to_ranges

Variable = ForOp | ThreadAxis
"""A loop, or a thread axis, which has one value in each thread."""


class Relation(Enum):
    """Order of the iterations of a loop in which two accesses happen."""

    EQUAL = 0
    BEFORE = 1
    AFTER = 2
    NEXT = 3
    """The second access is in the iteration that follows the first one's."""
    ANY = 4


class Alias(Enum):
    """Whether two accesses touch the same element."""

    NEVER = 0
    POSSIBLE = 1
    CERTAIN = 2


Relations = Mapping[Variable, Relation]
"""Relations of loops; `ANY` for all others."""


class Runs:
    """The runs of an op in the iterations of its enclosing loops."""

    def __init__(self, op: Operation):
        self.op = op

    @cached_property
    def _around(self) -> list[Operation]:
        return path_to(self.op)[:-1]

    @cached_property
    def loops(self) -> tuple[ForOp, ...]:
        """The enclosing loops, outermost first."""
        return tuple(each for each in self._around if isinstance(each, ForOp))

    @cached_property
    def _ranges(self) -> tuple[Range, ...]:
        return extents_to_ranges([loop.trip_count for loop in self.loops])

    @cached_property
    def conditions(self) -> list[tuple[LinearSum, int]]:
        """Sums over `loops` with extents: the op runs only if each is in [0, extent).

        Conditions that always hold are omitted.
        """
        found: list[tuple[LinearSum | None, int]] = []
        for each in (*self._around, self.op):
            match each:
                case BlockOp():
                    sums = self.expand(each.bindings.data.results, each.operands_)
                    found += zip(sums, each.domain, strict=True)
                case GuardOp():
                    sums = self.expand(each.map.data.results, each.indices)
                    found += zip(sums, each.condition_extents, strict=True)
                case _:
                    pass
        kept: list[tuple[LinearSum, int]] = []
        for total, extent in found:
            if total is not None:
                low, high = sum_range(total, self._ranges)
                if low < 0 or high >= extent:
                    kept.append((total, extent))
        return kept

    def expand(
        self, exprs: Sequence[AffineExpr], operands: Sequence[SSAValue]
    ) -> list[LinearSum | None]:
        """Return expressions over the variables of `loops`; None for those computed from data."""
        return [
            None if expr is None else linear_sum(expr, self._ranges)
            for expr in self._expand(exprs, operands)
        ]

    def _expand(
        self, exprs: Sequence[AffineExpr], operands: Sequence[SSAValue]
    ) -> list[AffineExpr | None]:
        values = [self._value(operand) for operand in operands]
        known = [AffineExpr.constant(0) if value is None else value for value in values]
        return [
            None
            if any(values[position] is None for position in used_dims(expr))
            else substitute(expr, known)
            for expr in exprs
        ]

    def _value(self, value: SSAValue) -> AffineExpr | None:
        if (loop := loop_of(value)) is not None:
            return AffineExpr.dimension(self.loops.index(loop)) if loop in self.loops else None
        if (block := block_of(value)) is not None:
            binding = block.bindings.data.results[block.iter_vars.index(value)]
            return self._expand([binding], block.operands_)[0]
        if isinstance(owner := value.owner, IndexOp):
            return self._expand(owner.map.data.results[:1], owner.indices)[0]
        return None


@dataclass(eq=False)
class Touch(Runs):
    """An access to a buffer.

    Attributes:
        access: the indices of the elements; None if nothing is known about them.
    """

    op: Operation
    buffer: SSAValue
    is_write: bool
    access: Access | None

    @cached_property
    def block(self) -> BlockOp | None:
        """The block whose body holds the access."""
        return owning_block(self.op)

    @cached_property
    def indices(self) -> list[LinearSum | None]:
        """The indices of the first element over the variables of `loops`; None for those that are
        computed from data.
        """
        if self.access is None:
            return [None] * len(buffer_shape(self.buffer))
        return self.expand(self.access.indices, self.access.operands)

    @property
    def elements(self) -> object:
        """Key of the accessed elements: accesses to a buffer with equal keys alias the same
        accesses.
        """
        access = self.access
        lanes = None if access is None else tuple((*row, n) for row, n in access.lanes)
        leaves = access is not None and access.may_leave
        return self.loops, tuple(self.indices), tuple(self.conditions), lanes, leaves


def touches(buffer: SSAValue, root: Operation) -> list[Touch]:
    """Return all accesses to `buffer` at or below `root`, in program order."""
    ops = {use.operation for use in buffer.uses}
    return [touch for op in root.walk() if op in ops for touch in touches_of(op, buffer)]


def touches_of(op: Operation, buffer: SSAValue) -> Iterator[Touch]:
    """Yield the accesses of an op to a buffer."""
    if isinstance(op, LoadOp | StoreOp | IntrinOp):
        for access in accesses(op):
            if access.buffer is buffer:
                yield Touch(op, buffer, access.is_write, access)
    elif not isinstance(op, PrefetchOp):
        yield Touch(op, buffer, True, None)


def alias(
    first: Touch,
    second: Touch,
    relations: Relations,
    axes: Mapping[ThreadAxis, int] | None = None,
) -> Alias:
    """Whether two accesses to one buffer touch the same element.

    Args:
        relations: of the loops around both.
        axes: extents of the thread axes that are compared as loops.
    """
    pair = _Pair(first, second, relations, axes or {})
    system = pair.system
    places = [pair.elements(first, pair.first), pair.elements(second, pair.second)]
    is_known = True
    for a, b in zip(*places, strict=True):
        if a is None or b is None:
            is_known = False
        else:
            system.require(b.plus(a, -1))
    try:
        point = system.solve()
    except Unknown:
        return Alias.POSSIBLE
    if point is None:
        return Alias.NEVER
    return Alias.CERTAIN if is_known else Alias.POSSIBLE


def separates(block: BlockOp, positions: Sequence[int], loop: ForOp) -> bool:
    """Whether iterations of `loop` bind the variables at `positions` to different points.

    This must hold for any iterations of the loops inside, with the loops around it fixed.
    """
    return not _repeats(Runs(block), positions, [loop])


def runs_once(block: BlockOp, loop: ForOp) -> bool:
    """Whether `block` runs at most once for each point during one execution of `loop`."""
    runs = Runs(block)
    inside = runs.loops[runs.loops.index(loop) :]
    return not _repeats(runs, range(len(block.iter_vars)), inside)


def _repeats(runs: Runs, positions: Sequence[int], loops: Sequence[ForOp]) -> bool:
    """Whether a block may have the same values of some variables in different iterations of nested
    loops, with the loops around them fixed.
    """
    block = runs.op
    assert isinstance(block, BlockOp)
    bindings = [block.bindings.data.results[position] for position in positions]
    outer = runs.loops[: runs.loops.index(loops[0])]
    pair = _Pair(runs, runs, dict.fromkeys(outer, Relation.EQUAL), {})
    for total in runs.expand(bindings, block.operands_):
        if total is not None:
            value = pair.system.value
            pair.system.require(value(total, pair.second).plus(value(total, pair.first), -1))
    start = len(outer)
    moves = zip(pair.first[start:], pair.second[start : start + len(loops)], strict=False)
    return may_differ(pair.system, [b.plus(a, -1) for a, b in moves])


class _Pair:
    """Two runs whose loops are in given relations.

    Attributes:
        first, second: the value of each enclosing loop's variable.
    """

    def __init__(
        self, first: Runs, second: Runs, relations: Relations, axes: Mapping[ThreadAxis, int]
    ):
        self.system = System()
        runs = first, second
        keys = [[_variable(loop, axes) for loop in each.loops] for each in runs]
        common = dict.fromkeys((*axes, *(key for key in keys[0] if key in keys[1])))
        values: tuple[dict[Variable, Sum], ...] = {}, {}
        for key in common:
            extent = key.trip_count if isinstance(key, ForOp) else axes[key]
            values[0][key] = self.system.variable(0, extent - 1)
            relation = relations.get(key, Relation.ANY)
            values[1][key] = self._later(values[0][key], extent, relation)
        self.first, self.second = (
            [self._loop_value(*each, found) for each in zip(run.loops, names, strict=True)]
            for run, names, found in zip(runs, keys, values, strict=True)
        )
        for run, found in zip(runs, (self.first, self.second), strict=True):
            for total, extent in run.conditions:
                self.system.require(self.system.value(total, found), 0, extent - 1)

    def elements(self, touch: Touch, values: Sequence[Sum]) -> list[Sum | None]:
        """Return the indices of an accessed element, over the variables of the system."""
        found = [None if e is None else self.system.value(e, values) for e in touch.indices]
        access = touch.access
        if access is None:
            return found
        for row, extent in access.lanes:
            lane = self.system.variable(0, extent - 1)
            found = [
                None if index is None else index.plus(lane, step)
                for index, step in zip(found, row, strict=True)
            ]
        if access.may_leave:
            # Elements outside of the buffer are not read.
            for index, extent in zip(found, buffer_shape(touch.buffer), strict=True):
                if index is not None:
                    self.system.require(index, 0, extent - 1)
        return found

    def _later(self, start: Sum, extent: int, relation: Relation) -> Sum:
        """Return the value of a common loop's variable in the second run."""
        last = extent - 1
        match relation:
            case Relation.EQUAL:
                return start
            case Relation.NEXT:
                step = Sum({}, 1)
            case Relation.BEFORE:
                step = self.system.variable(1, last)
            case Relation.AFTER:
                step = self.system.variable(-last, -1)
            case Relation.ANY:
                step = self.system.variable(-last, last)
        later = start.plus(step)
        self.system.require(later, 0, last)
        return later

    def _loop_value(self, loop: ForOp, key: Variable, common: Mapping[Variable, Sum]) -> Sum:
        last = loop.trip_count - 1
        if key not in common:
            return self.system.variable(0, last)
        if not isinstance(key, ForOp):
            self.system.require(common[key], 0, last)
        return common[key]


def _variable(loop: ForOp, axes: Mapping[ThreadAxis, int]) -> Variable:
    return loop.axis.data if loop.axis is not None and loop.axis.data in axes else loop
