"""Patterns of blocks: their accesses, and whether they are contractions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import FixedBitwidthType, IntegerAttr, MemRefType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.arith_ import CmpiOp, ExtSIOp, ExtUIOp, SelectOp, SIToFPOp
from tcopt.dialects.loop.analysis import buffer_shape, value_ranges
from tcopt.dialects.table import LookupOp, ScaleOp
from tcopt.support.arithmetic.affine import Dim, linear_sum, sum_range, to_expr, used_dims
from tcopt.support.arithmetic.intervals import extents_to_ranges
from tcopt.support.memo import memo


@dataclass(frozen=True)
class StridedAccess:
    """A load or store of a block.

    Attributes:
        steps: for each iteration variable, its stride in each index of the buffer; None if an index
            does not depend linearly on the variable.
    """

    op: loop.LoadOp | loop.StoreOp
    buffer: SSAValue
    steps: tuple[tuple[int, ...] | None, ...]

    def uses(self, variable: int) -> bool:
        """Whether the address depends on the variable."""
        steps = self.steps[variable]
        return steps is None or any(steps)

    @property
    def last(self) -> int:
        """The innermost dimension with several elements: these are adjacent in memory."""
        shape = buffer_shape(self.buffer)
        wide = [dim for dim, extent in enumerate(shape) if extent > 1]
        return wide[-1] if wide else -1

    def is_unit(self, variable: int, dim: int | None = None) -> bool:
        """Whether the access has stride 1 along the variable in `dim`, and stride 0 elsewhere.

        Args:
            dim: the innermost dimension with several elements by default.
        """
        steps = self.steps[variable]
        dim = self.last if dim is None else dim
        return bool(steps) and steps[dim] == 1 and sum(map(abs, steps)) == 1

    def is_strided(self, variable: int) -> bool:
        """Whether the variable moves only along the last dimension, by any positive stride."""
        steps = self.steps[variable]
        return bool(steps) and steps[self.last] > 0 and sum(map(abs, steps)) == steps[self.last]


@dataclass(frozen=True)
class BlockPattern:
    """A block's variables and accesses.

    Attributes:
        terms: loads other than of the block's own output.
        is_contraction: the body adds a product of two loaded values to the output.
    """

    block: loop.BlockOp
    store: StridedAccess
    terms: tuple[StridedAccess, ...]
    is_contraction: bool

    @property
    def extents(self) -> tuple[int, ...]:
        return self.block.domain

    @property
    def variables(self) -> range:
        """Positions of all variables."""
        return range(len(self.extents))

    @property
    def spatial(self) -> tuple[int, ...]:
        """Positions of the spatial variables."""
        return self._of_kind(loop.IterKind.SPATIAL)

    @property
    def reduce(self) -> tuple[int, ...]:
        """Positions of the reduce variables."""
        return self._of_kind(loop.IterKind.REDUCE)

    @property
    def work(self) -> int:
        """Number of iterations of the body."""
        return prod(self.extents)

    @property
    def has_own_buffers(self) -> bool:
        """Whether each term reads a different buffer, so that each can be cached separately."""
        return len({term.buffer for term in self.terms}) == len(self.terms)

    def _of_kind(self, kind: loop.IterKind) -> tuple[int, ...]:
        return tuple(i for i, k in enumerate(self.block.iter_kinds) if k is kind)


def match_block(block: loop.BlockOp) -> BlockPattern | None:
    """Return the block's pattern; None unless the block has exactly one store."""
    stores = [op for op in block.body.block.ops if isinstance(op, loop.StoreOp)]
    if len(stores) != 1:
        return None
    store = _access(stores[0], block)
    loads = [_access(op, block) for op in block.body.block.ops if isinstance(op, loop.LoadOp)]
    terms = tuple(load for load in loads if load.buffer is not store.buffer)
    return BlockPattern(block, store, terms, _is_contraction(block, stores[0]))


def _access(op: loop.LoadOp | loop.StoreOp, block: loop.BlockOp) -> StridedAccess:
    variables = {value: position for position, value in enumerate(block.iter_vars)}
    indexed = tuple(variables.get(value) for value in op.indices)
    return StridedAccess(op, op.memref, _steps(op.map.data, indexed, block.domain))


@memo(1 << 12)
def _steps(
    access: AffineMap, indexed: tuple[int | None, ...], domain: tuple[int, ...]
) -> tuple[tuple[int, ...] | None, ...]:
    """Return the `steps` of a `StridedAccess`.

    Args:
        access: the map from operands to indices of the buffer.
        indexed: positions of the iteration variables that are the map's operands; None for other
            operands.
        domain: extents of the iteration variables.
    """
    ranges = extents_to_ranges(domain)
    operand_ranges = [(0, 1 << 30) if v is None else ranges[v] for v in indexed]
    sums = [linear_sum(e, operand_ranges) for e in access.results]
    divided = {
        position
        for total in sums
        for atom, _ in total.terms
        if not isinstance(atom, Dim)
        for position in used_dims(to_expr(atom.operand))
    }
    used = {d for e in access.results for d in used_dims(e)}
    steps: list[tuple[int, ...] | None] = []
    for variable in range(len(domain)):
        positions = [i for i, v in enumerate(indexed) if v == variable and i in used]
        if divided.isdisjoint(positions):
            steps.append(tuple(sum(s.coefficient(p) for p in positions) for s in sums))
        else:
            steps.append(None)
    return tuple(steps)


def _is_contraction(block: loop.BlockOp, store: loop.StoreOp) -> bool:
    """Whether a block computes `out = out + a * b`.

    Casts around the factors are permitted. Bitwise products and table entries selected by weights
    count as products.
    """
    total = store.value.owner
    if not block.is_reduction or not isinstance(total, arith.AddfOp | arith.AddiOp):
        return False
    return any(
        _is_product(term.owner) or _is_product_of_bits(term.owner) for term in total.operands
    ) or any(chosen_entry(term.owner) is not None for term in total.operands)


def chosen_entry(op: object) -> Operation | None:
    """Return the selected entry of a table-lookup sum; None for other expressions.

    The sum has terms `select(index == entry, value, 0)`, possibly negated or times powers of two,
    whose values are masked loaded bytes.
    """
    if isinstance(op, arith.AddiOp | arith.SubiOp):
        found = [chosen_entry(v.owner) for v in op.operands if not _is_zero(v.owner)]
        return found[0] if found and all(each is not None for each in found) else None
    if isinstance(op, arith.ShLIOp):
        return chosen_entry(op.lhs.owner)
    if not isinstance(op, SelectOp) or not _is_zero(op.rhs.owner):
        return None
    test, value = op.cond.owner, op.lhs.owner
    if not isinstance(test, CmpiOp) or test.predicate.value.data != _EQUAL:
        return None
    return value if isinstance(value, Operation) and entry_masks(value) else None


_EQUAL = arith.CMPI_COMPARISON_OPERATIONS.index("eq")


def entry_masks(op: object) -> list[int]:
    """Return the masks of the loaded bytes that make up an entry, low bits first; empty if none."""
    if isinstance(op, arith.AddiOp) and isinstance(op.rhs.owner, arith.ShLIOp):
        low, high = entry_masks(op.lhs.owner), entry_masks(op.rhs.owner.lhs.owner)
        return low + high if low and high else []
    if not isinstance(op, arith.AndIOp) or not isinstance(_uncast(op.lhs), loop.LoadOp):
        return []
    mask = op.rhs.owner
    if not isinstance(mask, arith.ConstantOp) or not isinstance(mask.value, IntegerAttr):
        return []
    return [mask.value.value.data]


def _is_zero(op: object) -> bool:
    return (
        isinstance(op, arith.ConstantOp)
        and isinstance(op.value, IntegerAttr)
        and (op.value.value.data == 0)
    )


def _is_product_of_bits(op: object) -> bool:
    """Whether `op` sums `((a & b) >> i) & 1`, or of `a ^ b`, times powers of two, of loaded
    words."""
    if isinstance(op, arith.AddiOp | arith.SubiOp):
        return all(_is_product_of_bits(value.owner) for value in op.operands)
    if isinstance(op, arith.ShLIOp):
        return _is_product_of_bits(op.lhs.owner)
    if not isinstance(op, arith.AndIOp):
        return False
    shifted = op.lhs.owner
    both = shifted.lhs.owner if isinstance(shifted, arith.ShRUIOp) else None
    return isinstance(both, arith.AndIOp | arith.XOrIOp) and all(
        isinstance(_uncast(value), loop.LoadOp) for value in both.operands
    )


def _is_product(op: object) -> bool:
    if not isinstance(op, arith.MulfOp | arith.MuliOp):
        return False
    return all(isinstance(_uncast(value), loop.LoadOp) for value in op.operands)


def _uncast(value: SSAValue) -> object:
    op = value.owner
    while isinstance(op, arith.ExtFOp | ExtSIOp | ExtUIOp | SIToFPOp):
        op = op.operands[0].owner
    return op


def left_out_along(pattern: BlockPattern) -> set[int]:
    """Return the spatial variables along which some terms of a sum are skipped.

    Terms are skipped where a factor is out of bounds and its default is 0 (see `lower-blocks`).
    """
    found: set[int] = set()
    for term in pattern.terms:
        if not isinstance(term.op, loop.LoadOp) or term.op.default is None:
            continue
        indices = list(term.op.indices)
        ranges = value_ranges(indices)
        for expr, extent in zip(term.op.map.data.results, buffer_shape(term.buffer), strict=True):
            low, high = sum_range(linear_sum(expr, ranges), ranges)
            if low < 0 or high >= extent:
                used = [indices[d] for d in used_dims(expr)]
                found.update(v for v in pattern.spatial if pattern.block.iter_vars[v] in used)
    return found


FUNCTION = 8
"""Cost of a math function in operations."""


def body_cost(block: loop.BlockOp) -> int:
    """Return a rough count of operations in one run of a block's body; math functions cost more."""
    return sum(FUNCTION if op.name.startswith("math.") else 1 for op in _body(block))


def total_cost(block: loop.BlockOp) -> int:
    """Return a rough count of operations in all runs of a block's body."""
    return body_cost(block) * prod(block.domain)


def scales(block: loop.BlockOp) -> bool:
    """Whether a block is a transform by a constant table, whose entries fold in unrolled loops."""
    return any(isinstance(op, ScaleOp) for op in block.body.block.ops)


def is_window(pattern: BlockPattern) -> bool:
    """Whether a reduction runs over windows that slide along a spatial variable."""
    for term in pattern.terms:
        for dim in range(len(buffer_shape(term.buffer))):
            moved = [v for v, steps in enumerate(term.steps) if steps is not None and steps[dim]]
            kinds = {v in pattern.reduce for v in moved if pattern.extents[v] > 1}
            if len(kinds) == 2:
                return True
    return False


def step_bytes(access: StridedAccess, variable: int) -> int:
    """Return the distance in bytes between the elements of adjacent values of a variable."""
    steps = access.steps[variable]
    if steps is None:
        return 0
    shape = buffer_shape(access.buffer)
    elements = sum(step * prod(shape[dim + 1 :]) for dim, step in enumerate(steps))
    return abs(elements) * _bits(_element(access.buffer)) // 8


def _element(buffer: SSAValue) -> Attribute:
    assert isa(buffer.type, MemRefType)
    return buffer.type.get_element_type()


def _body(block: loop.BlockOp) -> Iterator[Operation]:
    for op in block.body.block.ops:
        if not isinstance(op, loop.InitOp):
            yield op


def element_bits(block: loop.BlockOp) -> int:
    """Return the width of the widest element that a block loads or stores, in bits."""
    widths = [8]
    for op in block.body.block.ops:
        if isinstance(op, loop.LoadOp | loop.StoreOp):
            widths.append(_bits(_element(op.memref)))
    return max(widths)


def stored_bits(block: loop.BlockOp) -> int:
    """Return the width of the widest element that a block stores, in bits."""
    stores = (op for op in block.body.block.ops if isinstance(op, loop.StoreOp))
    return max(_bits(_element(op.memref)) for op in stores)


def lane_bits(block: loop.BlockOp) -> int:
    """Return the element width that determines the lanes of a vector, in bits.

    This is the widest element, but a byte for table lookups: a register of these takes as long as
    one of them.
    """
    looks_up = any(isinstance(op, LookupOp) for op in block.body.block.ops)
    return 8 if looks_up else element_bits(block)


def buffer_bits(buffer: SSAValue) -> int:
    """Return the size of a buffer in bits."""
    return prod(buffer_shape(buffer)) * _bits(_element(buffer))


def access_bits(access: StridedAccess) -> int:
    """Return the width of the elements that an access loads or stores, in bits."""
    return _bits(_element(access.buffer))


def access_bytes(access: StridedAccess) -> int:
    """Return the size in memory of an element of the accessed buffer, in bytes."""
    return (access_bits(access) + 7) // 8


def _bits(element: Attribute) -> int:
    if isinstance(element, FixedBitwidthType):
        return element.bitwidth
    return 64
