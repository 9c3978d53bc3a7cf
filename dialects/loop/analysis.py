"""Footprint of an op of the loop dialect: the regions of buffers that it accesses.

A region is a box: in each dimension a base, affine in values defined outside the op, and a
constant extent. One execution of `loop.for %ji` below

    loop.for %jo = 0 to 63 {
      loop.for %ji = 0 to 16 {
        loop.block "b" (%vj: spatial 1000 = %jo * 16 + %ji) {
          %l = loop.load %x[%vj + 1] : memref<1001xf32>

reads 16 elements of `%x`, starting at `%jo * 16 + 1`. Boxes over-approximate; an index that is
computed at run time covers the whole dimension. The domains of blocks are guards, which clip the
boxes unless the unclipped iteration space is requested.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd

from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.utils.hints import isa

from tcopt.dialects.loop.access import LoadOp, StoreOp
from tcopt.dialects.loop.block import BlockOp
from tcopt.dialects.loop.index_ops import IndexOp
from tcopt.dialects.loop.intrin import IntrinOp
from tcopt.dialects.loop.structure import ForOp, loop_of, variable_range
from tcopt.support.arithmetic.affine import (
    Atom,
    Dim,
    FloorDiv,
    LinearSum,
    Mod,
    dims_of,
    linear_sum,
    simplify,
    substitute,
    sum_range,
    to_expr,
    used_dims,
)
from tcopt.support.arithmetic.intervals import UNBOUNDED, Range, range_below, weighted_sum
from tcopt.support.syntax.access_syntax import unique_operands


@dataclass(frozen=True)
class Access:
    """One operand of a load, store or intrinsic: a buffer and the indices into it.

    Attributes:
        indices: the indices of the first element, over `operands`.
        reaches: the minimum and maximum offset of elements from the first, per dimension.
        lanes: for each dimension of a vector or tile, the steps of the indices, and the extent.
        tile: the position of the tile among the operands of an intrinsic.
    """

    op: LoadOp | StoreOp | IntrinOp
    buffer: SSAValue
    is_write: bool
    indices: tuple[AffineExpr, ...]
    operands: tuple[SSAValue, ...]
    reaches: Sequence[Range]
    lanes: tuple[tuple[Sequence[int], int], ...] = ()
    tile: int = 0

    @property
    def may_leave(self) -> bool:
        """Whether out-of-bounds elements read a default."""
        match self.op:
            case LoadOp():
                return self.op.default is not None
            case IntrinOp():
                return self.op.tiles[self.tile].is_padded
            case StoreOp():
                return False


@dataclass(frozen=True)
class BoxSide:
    """`extent` consecutive indices from `base`, an affine expression over the operands of a box."""

    base: AffineExpr
    extent: int


@dataclass(frozen=True)
class Box:
    """A rectangular part of a buffer, with bases over values defined outside the analysed op."""

    operands: tuple[SSAValue, ...]
    dims: tuple[BoxSide, ...]


@dataclass(frozen=True)
class Region:
    """The part of a buffer that an op reads or writes."""

    buffer: SSAValue
    is_write: bool
    box: Box


def accesses(root: Operation) -> Iterator[Access]:
    """Yield every access at or below `root`, in program order.

    An output that an intrinsic updates is yielded twice, as a read and as a write.
    """
    for op in root.walk():
        match op:
            case LoadOp() | StoreOp():
                indices, is_write = op.map.data.results, isinstance(op, StoreOp)
                type_ = op.value.type if isinstance(op, StoreOp) else op.result.type
                extents = type_.get_shape() if isa(type_, VectorType) else ()
                lanes = tuple(zip(op.lane_steps, extents, strict=False))
                operands = tuple(op.indices)
                yield Access(op, op.memref, is_write, indices, operands, op.lane_reaches, lanes)
            case IntrinOp():
                for number, tile in enumerate(op.tiles):
                    map, values = unique_operands(
                        AffineMap(len(op.indices), 0, tile.first), op.indices
                    )
                    for is_write in (False, True):
                        if tile.is_output if is_write else tile.is_read:
                            yield Access(
                                op,
                                tile.buffer,
                                is_write,
                                map.results,
                                tuple(values),
                                tile.reaches,
                                tuple(zip(tile.steps, tile.extents, strict=True)),
                                number,
                            )
            case _:
                pass


def access_regions(root: Operation) -> list[Region]:
    """Return the regions that one execution of `root` accesses, one per buffer and direction.

    Loops at or below `root` run all their iterations; bases refer to values defined outside it.
    """
    found: dict[tuple[SSAValue, bool], Box] = {}
    for access in accesses(root):
        key = (access.buffer, access.is_write)
        box = access_box(access, root)
        found[key] = union(found[key], box, access.buffer) if key in found else box
    return [Region(buffer, is_write, box) for (buffer, is_write), box in found.items()]


def access_box(
    access: Access, root: Operation, running: Collection[ForOp] = (), *, clipped: bool = True
) -> Box:
    """Return the box that `access` covers during one execution of `root`, an op at or around it.

    Args:
        running: loops around `root` that also run all their iterations, as if they were below it.
        clipped: whether to clip the box to the buffer and to the domains of blocks.
    """
    shape = buffer_shape(access.buffer)
    space = _Space(root, running, clipped)
    operands = [space.expand(value) for value in access.operands]
    known = [e if e is not None else AffineConstantExpr(0) for e in operands]
    dims: list[BoxSide] = []
    for expr, (below, above), extent in zip(access.indices, access.reaches, shape, strict=True):
        if any(operands[p] is None for p in used_dims(expr)):
            dims.append(_whole(extent))
            continue
        base, low, high = space.split(linear_sum(substitute(expr, known), space.ranges))
        dims.append(_interval(base, low + below, high + above, extent, clipped))
    return _compact(dims, space.values)


def union(first: Box, second: Box, buffer: SSAValue, *, clipped: bool = True) -> Box:
    """Return the bounding box of both; a dimension whose bases differ by a non-constant becomes
    the whole dimension."""
    shape = buffer_shape(buffer)
    values = list(dict.fromkeys((*first.operands, *second.operands)))
    ranges = value_ranges(values)
    dims: list[BoxSide] = []
    for a, b, extent in zip(first.dims, second.dims, shape, strict=True):
        base_a = linear_sum(over(a.base, first.operands, values), ranges)
        base_b = linear_sum(over(b.base, second.operands, values), ranges)
        if base_a.terms != base_b.terms:
            dims.append(_whole(extent))
            continue
        low = min(base_a.constant, base_b.constant)
        high = max(base_a.constant + a.extent, base_b.constant + b.extent) - 1
        dims.append(_interval(LinearSum(base_a.terms, 0), low, high, extent, clipped))
    return _compact(dims, values)


def whole_buffer(buffer: SSAValue) -> Box:
    """Return a box that covers a whole buffer."""
    return Box((), tuple(_whole(extent) for extent in buffer_shape(buffer)))


def covers(box: Box, other: Box, buffer: SSAValue) -> bool:
    """Whether `box` contains every element of `other`."""
    return union(box, other, buffer) == union(box, box, buffer)


def over(expr: AffineExpr, operands: Sequence[SSAValue], values: list[SSAValue]) -> AffineExpr:
    """Rewrite `expr` over `operands` as an expression over `values`, appending missing operands."""
    dims: list[AffineExpr] = []
    for operand in operands:
        if operand not in values:
            values.append(operand)
        dims.append(AffineDimExpr(values.index(operand)))
    return substitute(expr, dims)


def value_ranges(values: Sequence[SSAValue]) -> tuple[Range, ...]:
    """Return the range of each value: a loop's, an iteration variable's, or unbounded."""
    return tuple([variable_range(value) or UNBOUNDED for value in values])


def buffer_shape(buffer: SSAValue) -> tuple[int, ...]:
    """Return the static shape of a buffer."""
    type_ = buffer.type
    assert isa(type_, MemRefType)
    return tuple(type_.get_shape())


def block_of(value: SSAValue) -> BlockOp | None:
    """Return the block that `value` is an iteration variable of, if any."""
    owner = value.owner
    parent = owner.parent_op() if isinstance(owner, Block) else None
    return parent if isinstance(parent, BlockOp) else None


def binding_values(block: BlockOp, position: int) -> tuple[SSAValue, ...]:
    """Return the loop variables in the binding of one iteration variable, in the block's order."""
    operands = block.operands_
    used = sorted(block.bindings.data.results[position].used_dims())
    return tuple(dict.fromkeys(operands[p] for p in used))


def _whole(extent: int) -> BoxSide:
    return BoxSide(AffineConstantExpr(0), extent)


def _interval(base: LinearSum, low: int, high: int, extent: int, clipped: bool) -> BoxSide:
    """Return `base + [low, high]`, clipped to the buffer if the base is constant."""
    if clipped and base.is_constant:
        low, high = max(low + base.constant, 0), min(high + base.constant, extent - 1)
        return BoxSide(AffineConstantExpr(low), max(high - low + 1, 0))
    if clipped and high - low + 1 >= extent:
        return _whole(extent)
    return BoxSide(to_expr(LinearSum(base.terms, base.constant + low)), high - low + 1)


def _compact(dims: Sequence[BoxSide], values: Sequence[SSAValue]) -> Box:
    ranges = value_ranges(values)
    results = tuple(simplify(d.base, ranges) for d in dims)
    map, operands = unique_operands(AffineMap(len(values), 0, results), values)
    extents = [d.extent for d in dims]
    return Box(
        tuple(operands),
        tuple(BoxSide(b, e) for b, e in zip(map.results, extents, strict=True)),
    )


@dataclass
class _Space:
    """Values found while expanding indices, as dimensions; `inner` ones vary within `root`."""

    root: Operation
    running: Collection[ForOp]
    obeys_domains: bool
    values: list[SSAValue] = field(default_factory=lambda: [])
    ranges: list[Range] = field(default_factory=lambda: [])
    inner: set[int] = field(default_factory=lambda: set())
    bindings: dict[BlockOp, list[LinearSum]] = field(default_factory=lambda: {})

    def expand(self, value: SSAValue) -> AffineExpr | None:
        """Express `value` over loop variables; None if it is computed at run time."""
        if (loop := loop_of(value)) is not None:
            return self._dim(value, range_below(loop.trip_count), self._is_inside(loop))
        if (block := block_of(value)) is not None:
            return self._expand_variable(block, value)
        owner = value.owner
        if isinstance(owner, IndexOp):
            operands = [self.expand(v) for v in owner.indices]
            if all(e is not None for e in operands):
                return substitute(owner.map.data.results[0], [e for e in operands if e is not None])
        return None

    def split(self, value: LinearSum) -> tuple[LinearSum, int, int]:
        """Split `value` into a sum over outer dimensions and a remainder in `[low, high]`."""
        base: dict[Atom, int] = {}
        rest: list[tuple[int, Range]] = []
        for atom, factor in value.terms:
            outer, *inner = self._split_atom(atom)
            if outer is not None:
                base[outer] = base.get(outer, 0) + factor
            rest.append((factor, (inner[0], inner[1])))
        low, high = weighted_sum(0, rest)
        return LinearSum(tuple(base.items()), value.constant), low, high

    def _split_atom(self, atom: Atom) -> tuple[Atom | None, int, int]:
        dims = dims_of(atom)
        if dims.isdisjoint(self.inner):
            return atom, 0, 0
        if isinstance(atom, Dim) or dims <= self.inner:
            return None, *sum_range(LinearSum(((atom, 1),), 0), self.ranges)
        outer, low, high = self.split(atom.operand)
        start, width = LinearSum(outer.terms, outer.constant + low), high - low
        # `start` is a multiple of `step` plus a constant, which bounds its remainder.
        step = gcd(atom.divisor, *(factor for _, factor in start.terms))
        carry = atom.divisor - step + start.constant % step + width
        match atom:
            case FloorDiv():
                return FloorDiv(start, atom.divisor), 0, carry // atom.divisor
            case Mod() if carry < atom.divisor:
                return Mod(start, atom.divisor), 0, width
            case Mod():
                return None, 0, atom.divisor - 1

    def _expand_variable(self, block: BlockOp, variable: SSAValue) -> AffineExpr | None:
        position = block.iter_vars.index(variable)
        if not self._is_inside(block):
            return self._dim(variable, range_below(block.domain[position]), inner=False)
        sums = self._bindings(block)
        mine = sums[position]
        if not self.obeys_domains:
            return to_expr(mine)
        outer = [(a, f) for a, f in mine.terms if not dims_of(a) <= self.inner]
        within = LinearSum(tuple(t for t in mine.terms if t not in outer), 0)
        low, high = sum_range(within, self.ranges)
        limit = high
        for other, extent in zip(sums, block.domain, strict=True):
            if other.terms == within.terms and within.terms:
                limit = min(limit, extent - 1 - other.constant)
        if not outer:
            domain = block.domain[position]
            low, limit = max(low + mine.constant, 0), min(limit + mine.constant, domain - 1)
            return self._dim(variable, (low, max(limit, low)), inner=True)
        if limit == high:
            return to_expr(mine)
        # Another variable's domain restricts the inner part to fewer iterations than its loops
        # have.
        guarded = self._dim(variable, (low, max(limit, low)), inner=True)
        return to_expr(LinearSum(tuple(outer), mine.constant)) + guarded

    def _bindings(self, block: BlockOp) -> list[LinearSum]:
        if block not in self.bindings:
            loops = [self.expand(v) or AffineConstantExpr(0) for v in block.operands_]
            self.bindings[block] = [
                linear_sum(substitute(e, loops), self.ranges) for e in block.bindings.data.results
            ]
        return self.bindings[block]

    def _dim(self, value: SSAValue, range_: Range, inner: bool) -> AffineExpr:
        if value in self.values:
            return AffineDimExpr(self.values.index(value))
        self.values.append(value)
        self.ranges.append(range_)
        if inner:
            self.inner.add(len(self.values) - 1)
        return AffineDimExpr(len(self.values) - 1)

    def _is_inside(self, op: ForOp | BlockOp) -> bool:
        return self.root.is_ancestor(op) or op in self.running
