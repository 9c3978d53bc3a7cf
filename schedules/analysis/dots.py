"""Select hardware dot products for contractions whose weights are stored in groups for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.dialects.arith import AddiOp
from xdsl.dialects.builtin import IntegerType, MemRefType, Signedness
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects.arith_ import ExtUIOp
from tcopt.dialects.intrinsics import find_dot
from tcopt.dialects.intrinsics.bit_dots import MOST_PLANES, WORD, bit_dot_name
from tcopt.dialects.intrinsics.table_sums import lookup_of, table_sum_fits, table_sum_name
from tcopt.dialects.loop import ForOp, StoreOp
from tcopt.dialects.loop.analysis import binding_values, buffer_shape, value_ranges
from tcopt.dialects.simd import part_bits
from tcopt.schedules.analysis.behaviours import behaviour_of, computes
from tcopt.schedules.analysis.patterns import (
    BlockPattern,
    StridedAccess,
    access_bits,
    chosen_entry,
    entry_masks,
)
from tcopt.schedules.state.state import loops_of
from tcopt.support.arithmetic.affine import Dim, LinearSum, Mod, linear_sum


@dataclass(frozen=True)
class Dot:
    """A dot-product intrinsic that matches a contraction.

    Attributes:
        name: name of the intrinsic.
        group: number of terms that it adds at once.
        variable: the reduce variable that counts these terms.
        weights: the operand stored in groups, as its last dimension; None if a group is a word.
        steps: strides of the indices of the weights from one group of terms to the next.
        operations: instructions for one vector.
        lanes: elements of a vector, if they differ from those of an accumulator register.
    """

    name: str
    group: int
    variable: int
    weights: StridedAccess | None
    steps: tuple[int, ...] = ()
    operations: int = 1
    lanes: int | None = None


def dot_of(pattern: BlockPattern, capabilities: frozenset[str]) -> Dot | None:
    """Return the dot product for a contraction on hardware with the given capabilities.

    None if there is none, or if the weights are not stored for one.
    """
    found = _bit_dot_of(pattern) or _table_sum_of(pattern, capabilities)
    if found is not None:
        return found
    if len(pattern.terms) != 2:
        return None
    for data, weights in (pattern.terms, pattern.terms[::-1]):
        types = (_factor(data), _factor(weights))
        found = find_dot(capabilities, types, _element(pattern.store.buffer))
        if found is None:
            continue
        (group,) = found.operands[1].shape
        variable = _grouped(weights, pattern, group)
        if variable is not None and data.is_unit(variable):
            steps = _group_steps(weights, pattern.block.iter_vars[variable], group)
            return Dot(found.name, group, variable, weights, steps)
    return None


def _bit_dot_of(pattern: BlockPattern) -> Dot | None:
    """Return the bit-count intrinsic for a sum over the bits of words; None if it is not one."""
    by_buffer: dict[SSAValue, int] = {}
    for term in pattern.terms:
        by_buffer[term.buffer] = by_buffer.get(term.buffer, 0) + 1
    used = {v for v in pattern.reduce if any(term.uses(v) for term in pattern.terms)}
    free = [v for v in pattern.reduce if v not in used and pattern.extents[v] > 1]
    if len(by_buffer) != 2 or len(free) != 1 or pattern.extents[free[0]] != WORD:
        return None
    loops = loops_of(pattern.block)
    position = _loop_of(pattern, free[0], loops)
    planes = tuple(by_buffer.values())
    if position is None or max(planes) > MOST_PLANES:
        return None
    orders = {planes, planes[::-1]}
    for first, second in sorted(orders, reverse=planes[0] > planes[1]):
        for exclusive, signs in product((False, True), range(4)):
            name = bit_dot_name((first, second), exclusive=exclusive, signs=signs)
            if computes(behaviour_of(name), pattern.block, [loops[position]]):
                return Dot(name, WORD, free[0], None, operations=3 * first * second)
    return None


def _table_sum_of(pattern: BlockPattern, capabilities: frozenset[str]) -> Dot | None:
    """Return the table-lookup intrinsic for a sum over table entries; None if it is not one."""
    lookup = lookup_of(capabilities)
    chosen = [v for v in pattern.reduce if any(t.is_unit(v) for t in pattern.terms)]
    if lookup is None or len(chosen) != 1 or pattern.extents[chosen[0]] != lookup.entries:
        return None
    position = _loop_of(pattern, chosen[0], loops_of(pattern.block))
    tables = [t for t in pattern.terms if t.uses(chosen[0])]
    count = len(pattern.terms) - len(tables)
    if position is None or not count:
        return None
    bits = _entry_bits(pattern)
    groups = 0 if bits is None else len(tables) // len(part_bits(bits))
    if bits is None or not groups or count % groups:
        return None
    for signed in (False, True):
        if not table_sum_fits(groups, count // groups, bits, signed=signed):
            continue
        name = table_sum_name(groups, count // groups, lookup.entries, bits, signed=signed)
        if computes(behaviour_of(name), pattern.block, [loops_of(pattern.block)[position]]):
            operations = count * (2 * len(part_bits(bits)) + 1)
            return Dot(name, lookup.entries, chosen[0], None, (), operations, lookup.lanes)
    return None


def _entry_bits(pattern: BlockPattern) -> int | None:
    """Return the width of table entries in bits, derived from the masks of their bytes."""
    assert isinstance(pattern.store.op, StoreOp)
    total = pattern.store.op.value.owner
    if not isinstance(total, AddiOp):
        return None
    found = (chosen_entry(term.owner) for term in total.operands)
    entry = next((each for each in found if each is not None), None)
    return None if entry is None else sum(mask.bit_length() for mask in entry_masks(entry)) or None


def _loop_of(pattern: BlockPattern, variable: int, loops: Sequence[ForOp]) -> int | None:
    """Return the index of the loop to which a variable is bound; None unless there is one."""
    values = binding_values(pattern.block, variable)
    found = [n for n, each in enumerate(loops) if each.induction_variable in values]
    return found[0] if len(found) == 1 else None


def _grouped(weights: StridedAccess, pattern: BlockPattern, group: int) -> int | None:
    """Return the reduce variable whose position within a group is the last index."""
    if not buffer_shape(weights.buffer) or buffer_shape(weights.buffer)[-1] != group:
        return None
    indices = list(weights.op.indices)
    last = linear_sum(weights.op.map.data.results[-1], value_ranges(indices))
    for variable in pattern.reduce:
        value = pattern.block.iter_vars[variable]
        if value in indices and pattern.extents[variable] % group == 0:
            one = LinearSum(((Dim(indices.index(value)), 1),), 0)
            if last in (one, LinearSum(((Mod(one, group), 1),), 0)):
                return variable
    return None


def lane_dim(access: StridedAccess, dot: Dot | None) -> int:
    """Return the dimension along which vectors run: the last, or the one before the groups."""
    return -2 if dot is not None and access is dot.weights else -1


def steps_of(access: StridedAccess, variable: int, dot: Dot | None) -> tuple[int, ...] | None:
    """Return the strides of the indices of a buffer along a variable; None if not linear.

    For grouped weights and the variable that counts terms of a group, these are the strides from
    one group to the next.
    """
    steps = access.steps[variable]
    if steps is None and dot is not None:
        return dot.steps if access is dot.weights and variable == dot.variable else None
    return steps


def _group_steps(weights: StridedAccess, value: SSAValue, group: int) -> tuple[int, ...]:
    """Return the strides of a buffer's indices from one group of a variable to the next."""
    map = weights.op.map.data
    there = [group if index is value else 0 for index in weights.op.indices]
    here = [0] * len(there)
    rows = zip(map.eval(here, []), map.eval(there, []), strict=True)
    return tuple(after - before for before, after in rows)


def _factor(access: StridedAccess) -> Attribute:
    """Return the type of the loaded elements: unsigned if they are zero-extended."""
    users = [use.operation for result in access.op.results for use in result.uses]
    if any(isinstance(user, ExtUIOp) for user in users):
        return IntegerType(access_bits(access), Signedness.UNSIGNED)
    return _element(access.buffer)


def _element(buffer: SSAValue) -> Attribute:
    assert isa(buffer.type, MemRefType)
    return buffer.type.get_element_type()
