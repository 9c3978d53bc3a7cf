"""Check whether tensor cores can compute a contraction, and assign roles to its variables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import MemRefType, f32
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from tcopt.dialects.intrinsics import Intrinsic, all_intrinsics
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.patterns import BlockPattern, StridedAccess, access_bits
from tcopt.schedules.rules.gpu.shared_tile import find_roles
from tcopt.schedules.rules.rule import Declined
from tcopt.support.machines.thread_blocks import ThreadBlocks


@dataclass(frozen=True)
class Factor:
    """An operand of a contraction, and its layout in shared memory.

    Attributes:
        order: order of its dimensions there; rows run along the last one.
    """

    term: StridedAccess
    order: tuple[int, ...]

    @property
    def in_order(self) -> bool:
        """Whether dimensions have the same order as in memory."""
        return self.order == tuple(range(len(self.order)))

    def lanes(self, width: int, facts: ThreadBlocks) -> int:
        """Return the number of adjacent elements that a thread copies at once.

        These are vectors that divide rows of the given width.
        """
        most = facts.vector_bits // access_bits(self.term) if self.in_order else 1
        row = buffer_shape(self.term.buffer)[-1]
        return next(n for n in (most, most // 2, 2, 1) if width % n == row % n == 0)

    def reach(self, sizes: Mapping[int, int]) -> list[int]:
        """Return the extents of the accessed part along each dimension, for given variable
        sizes."""
        reach = [1] * len(self.order)
        for variable, size in sizes.items():
            for dim, step in enumerate(self.term.steps[variable] or ()):
                reach[dim] += abs(step) * (size - 1)
        return reach

    def words(self, sizes: Mapping[int, int], facts: ThreadBlocks) -> float:
        """Return the words that are copied; a separately copied element counts as one."""
        reach = self.reach(sizes)
        lanes = self.lanes(reach[-1], facts)
        return prod(reach) / lanes * max(1, lanes * access_bits(self.term) // _WORD)


_WORD = 32
"""Bits of a word."""


@dataclass(frozen=True)
class WarpRoles:
    """Roles of the variables, by position.

    Attributes:
        rows, columns: each moves one operand; columns are contiguous in the output.
        spans: a second variable that moves the operand of columns; None if there is none.
        depth: the reduce variable along which the hardware multiplies.
        left, right: the operands that rows and columns move.
    """

    rows: int
    columns: int
    spans: int | None
    depth: int
    left: Factor
    right: Factor


def matrix_products(facts: ThreadBlocks) -> list[Intrinsic]:
    """Return the intrinsics of the target's warps for matrix products."""
    return [
        each
        for each in all_intrinsics().values()
        if each.is_on(facts.capabilities)
        and [len(operand.shape) for operand in each.operands] == [2, 2, 2]
    ]


def mmas_for(pattern: BlockPattern, known: list[Intrinsic]) -> list[Intrinsic] | Declined:
    """Return the intrinsics for a contraction's types, or decline."""
    factors = [_element(term) for term in pattern.terms]
    total = _element(pattern.store)
    found = [
        each
        for each in known
        if list(each.factors) == factors and each.operands[0].element == total
    ]
    if found:
        return found
    text = f"tensor cores have no products of {factors[0]} and {factors[1]} summed in {total}"
    if factors == [f32, f32]:
        text += "; precision f16 rounds those of layers with weights"
    return Declined(text)


def _element(access: StridedAccess) -> Attribute:
    type_ = access.buffer.type
    assert isa(type_, MemRefType)
    return type_.get_element_type()


def find_warp_roles(pattern: BlockPattern, facts: ThreadBlocks) -> WarpRoles | Declined:
    """Assign the roles, or decline with the reason why warps cannot share them."""
    roles = find_roles(pattern, None, facts)
    if isinstance(roles, Declined):
        return roles
    across = [t for t in pattern.terms if not t.uses(roles.columns)]
    along = [t for t in pattern.terms if t.uses(roles.columns)]
    if len(across) != 1 or len(along) != 1:
        return Declined("columns do not move one factor alone")
    (left,), (right,) = across, along
    parts = parts_of(pattern)
    depths = [
        v for v in pattern.reduce if all(dim_alone(t, v, parts) is not None for t in pattern.terms)
    ]
    if not depths:
        return Declined("no variable of the reduction moves both factors alone")
    depth = max(depths, key=lambda v: (pattern.extents[v], -v))
    return WarpRoles(
        roles.rows,
        roles.columns,
        roles.spans,
        depth,
        _factor(left, roles.rows, depth, parts),
        _factor(right, roles.columns, depth, parts),
    )


def parts_of(pattern: BlockPattern) -> tuple[int, ...]:
    """Return the variables that number parts of a sum (`split_sum.py`).

    Their strides in all operands are whole parts, and 1 in the result.
    """
    return tuple(
        v
        for v in pattern.spatial
        if pattern.extents[v] > 1
        and all(t.steps[v] and max(map(abs, t.steps[v] or ())) > 1 for t in pattern.terms)
    )


def _factor(term: StridedAccess, own: int, depth: int, parts: Collection[int]) -> Factor:
    """Return the layout of an operand in shared memory.

    Rows run along its own variable if that is contiguous in memory, otherwise along the depth.
    """
    dims = range(len(term.op.map.data.results))
    if dims[-1] in (dim_alone(term, depth, parts), dim_alone(term, own)):
        return Factor(term, tuple(dims))
    last = dim_alone(term, depth, parts)
    assert last is not None
    return Factor(term, (*(dim for dim in dims if dim != last), last))


def dim_alone(access: StridedAccess, variable: int, parts: Collection[int] = ()) -> int | None:
    """Return the dimension that a variable moves with stride 1 and no other variable moves.

    None if there is no such dimension.

    Args:
        parts: variables that are constant for a block, and may move the dimension too.
    """
    steps = access.steps[variable]
    if steps is None or sorted(map(abs, steps)) != [*[0] * (len(steps) - 1), 1]:
        return None
    dim = steps.index(1) if 1 in steps else -1
    others = (s for v, s in enumerate(access.steps) if v != variable and v not in parts)
    return dim if dim >= 0 and not any(s is None or s[dim] for s in others) else None
