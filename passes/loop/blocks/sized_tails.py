"""Separation of whole tiles from tails whose extent depends on a size.

A tile of a loop over a size is whole in most iterations. The body is copied, so that whole tiles
run without conditions, and the last one in a form that is chosen by the tile:

- rows, an unrolled loop: a copy for each number of rows;
- columns, unrolled vectors: a copy for each number of vectors, the last of which is masked;
- steps of a reduction, an unrolled loop that its stores do not depend on: a serial loop;
- anything else: a copy that keeps its conditions.

    loop.for %io = 0 to 64 {                         loop.for %io = 0 to 64 {
      loop.for %ii = 0 to 4 unrolled {                 loop.guard ([%s0 - %io * 4 - 4] in 253) {
        loop.guard ([%s0 - %io * 4 - %ii - 1]            loop.for %ii = 0 to 4 unrolled {
            in 256) {                          ->          ...
          ...                                          loop.guard ([%s0 - %io * 4 - 1] in 3) {
                                                         loop.guard ([%s0 - %io * 4 - 3] in 1) {
                                                           loop.for %ii = 0 to 3 unrolled {
                                                             ...
                                                         loop.guard ([%s0 - %io * 4 - 2] in 1) {
                                                           ...

The copies are in the loop that moves the tile, outside of the loops in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap

from tcopt.dialects import loop
from tcopt.dialects.loop.structure import LIMITED_KINDS, is_size
from tcopt.passes.loop.analysis.effects import has_effect
from tcopt.passes.loop.analysis.indexing import Knowledge, ValueSum, value_sum
from tcopt.support.arithmetic.affine import (
    Atom,
    Dim,
    LinearSum,
    dims_of,
    linear_sum,
    sum_range,
    to_expr,
)
from tcopt.support.ir.quick_ir import ops_with_regions, walk_ops
from tcopt.support.syntax.access_syntax import unique_operands

_TILE_KINDS = (loop.LoopKind.UNROLLED, loop.LoopKind.VECTORIZED)
_KINDS = (*_TILE_KINDS, loop.LoopKind.SERIAL)
"""Kinds of loops over a tile; the serial ones of a tail get a limit."""
_MOST_COPIES = 32
"""Maximum number of copies for different numbers of rows or vectors."""


@dataclass(frozen=True)
class _Condition:
    """`0 <= outer - inner`, for an inner sum over tiles and an outer sum over other values."""

    guard: loop.GuardOp
    inner: tuple[tuple[loop.ForOp, int], ...]

    @property
    def width(self) -> int:
        """The maximum of the inner sum."""
        return sum(factor * (tile.trip_count - 1) for tile, factor in self.inner)

    @property
    def is_of_tile(self) -> bool:
        """Whether all loops of the inner sum are unrolled or vectorised."""
        return all(tile.loop_kind in _TILE_KINDS for tile, _ in self.inner)


@dataclass
class _Tail:
    """Conditions with one outer sum, over `operands`."""

    outer: LinearSum
    operands: Sequence[SSAValue]
    conditions: list[_Condition]

    @property
    def width(self) -> int:
        """The least outer sum for which all conditions hold."""
        return max(condition.width for condition in self.conditions)

    @property
    def terms(self) -> set[tuple[loop.ForOp, int]]:
        """The loops of the tiles, with their factors."""
        return {term for condition in self.conditions for term in condition.inner}

    def of_tile(self) -> _Tail | None:
        """Return the tail with the conditions that are not wider than a tile; None without one.

        Serial loops may run over the rows of a tile, or over all tiles.
        """
        widths = [condition.width for condition in self.conditions if condition.is_of_tile]
        if not widths:
            return None
        kept = [condition for condition in self.conditions if condition.width <= max(widths)]
        return _Tail(self.outer, self.operands, kept)

    def guards_of(self, tile: loop.ForOp) -> set[loop.GuardOp]:
        """Return the guards that depend on a loop of a tile."""
        return {c.guard for c in self.conditions if any(each is tile for each, _ in c.inner)}

    def guard(self, least: int, most: int, body: Region) -> loop.GuardOp:
        """Return a guard that holds if the outer sum is in [least, most]."""
        expr = to_expr(LinearSum(self.outer.terms, self.outer.constant - least))
        map, operands = unique_operands(AffineMap(len(self.operands), 0, (expr,)), self.operands)
        return loop.GuardOp(map, operands, [most - least + 1], body)


def split_sized_tails(function: loop.FuncOp) -> bool:
    """Split the loops of a function that have tails over sizes, without simplifying guards.

    Returns:
        Whether anything changed.
    """
    known = Knowledge.of(function)
    if not known.sizes or _has_threads(function):
        return False
    body = function.body.block
    changed = _split_loops(body, known)
    return _split(body, None, known, frozenset()) or changed


def _has_threads(function: loop.FuncOp) -> bool:
    """Whether a device's threads run a function; they keep conditions, as each has few elements."""
    return any(isinstance(op, loop.ForOp) and op.axis is not None for op in walk_ops(function))


def _split_loops(block: Block, known: Knowledge) -> bool:
    """Split the bodies of all loops in a block."""
    changed = False
    for op in tuple(block.ops):
        match op:
            case loop.ForOp():
                known.enter_loop(op)
                changed |= _split_loops(op.body.block, known)
                if op.loop_kind in LIMITED_KINDS:
                    changed |= _split(_innermost(op), op, known, frozenset())
            case loop.GuardOp():
                changed |= _split_loops(op.body.block, known)
            case _:
                pass
    return changed


def _innermost(op: loop.ForOp) -> Block:
    """Return the body of a parallel loop, or of the last of perfectly nested ones."""
    block = op.body.block
    while op.loop_kind is loop.LoopKind.PARALLEL:
        inner = block.first_op
        if not isinstance(inner, loop.ForOp) or inner.next_op is not None:
            break
        if inner.loop_kind is not loop.LoopKind.PARALLEL:
            break
        block = inner.body.block
    return block


def _split(
    block: Block, op: loop.ForOp | None, known: Knowledge, done: frozenset[ValueSum]
) -> bool:
    """Copy the body of a loop, or of a function, for whole tiles and for tails.

    Args:
        done: outer sums by which the block was already split.
    """
    tails = _tails(block, op, known)
    key = next((key for key in tails if key not in done), None)
    if key is None:
        return False
    for part in _separate(block, tails[key], known):
        _split(part, op, known, done | {key})
    return True


def _tails(block: Block, op: loop.ForOp | None, known: Knowledge) -> dict[ValueSum, _Tail]:
    """Return the tails of a loop's body, by their outer sums."""
    inner: dict[SSAValue, loop.ForOp] = {}
    guards: list[loop.GuardOp] = []
    for nested in ops_with_regions(block):
        if isinstance(nested, loop.ForOp):
            known.enter_loop(nested)
            inner[nested.induction_variable] = nested
        elif isinstance(nested, loop.GuardOp):
            guards.append(nested)
    tails: dict[ValueSum, _Tail] = {}
    for guard in guards:
        ranges = known.ranges_of(guard.indices)
        for expr in guard.map.data.results:
            total = linear_sum(expr, ranges)
            terms = _tile_terms(total, guard.indices, inner)
            outer = LinearSum(
                tuple(t for t in total.terms if not _is_inner(t[0], guard.indices, inner)),
                total.constant,
            )
            if not terms or not _belongs_to(outer, guard.indices, op):
                continue
            if op is None and not all(tile.loop_kind in _TILE_KINDS for tile, _ in terms):
                # A serial loop over the whole range was split itself.
                continue
            low, _ = sum_range(outer, ranges)
            condition = _Condition(guard, terms)
            if low >= condition.width:
                continue
            key = value_sum(outer, guard.indices)
            tails.setdefault(key, _Tail(outer, guard.indices, [])).conditions.append(condition)
    return {key: tail for key, each in tails.items() if (tail := each.of_tile()) is not None}


def _is_inner(
    atom: Atom, operands: Sequence[SSAValue], inner: Mapping[SSAValue, loop.ForOp]
) -> bool:
    return any(operands[dim] in inner for dim in dims_of(atom))


def _tile_terms(
    total: LinearSum, operands: Sequence[SSAValue], inner: Mapping[SSAValue, loop.ForOp]
) -> tuple[tuple[loop.ForOp, int], ...]:
    """Return the terms of a condition over loops in a body; () unless all are those of a tile."""
    found: list[tuple[loop.ForOp, int]] = []
    for atom, factor in total.terms:
        if not _is_inner(atom, operands, inner):
            continue
        tile = inner[operands[atom.position]] if isinstance(atom, Dim) else None
        if tile is None or factor >= 0 or tile.loop_kind not in _KINDS:
            return ()
        found.append((tile, -factor))
    return tuple(found)


def _belongs_to(outer: LinearSum, operands: Sequence[SSAValue], op: loop.ForOp | None) -> bool:
    """Whether an outer sum depends on a size, and on a loop's variable or on sizes alone."""
    used = {operands[dim] for dim in outer.dims}
    if not any(map(is_size, used)) or not all(isinstance(each, BlockArgument) for each in used):
        return False
    return all(map(is_size, used)) if op is None else op.induction_variable in used


def _separate(block: Block, tail: _Tail, known: Knowledge) -> list[Block]:
    """Replace the ops of a block by copies under guards; return the bodies of the copies."""
    whole = Region(Block())
    for each in tuple(block.ops):
        each.detach()
        whole.block.add_op(each)
    width = tail.width
    low, high = sum_range(tail.outer, known.ranges_of(tail.operands))
    parts: list[Block] = []
    if not _covers(whole.block, {c.guard for c in tail.conditions}):
        # Effects outside of the guards also happen where none of the conditions holds.
        rest = [(low, width - 1, whole.clone())]
        inside = block
    else:
        rest = list(_variants(whole, tail, max(low, 0), min(width - 1, high)))
        inside = block
        if len(rest) > 1:
            inside = Block()
    if high >= width:
        block.add_op(tail.guard(width, high, whole))
        parts.append(whole.block)
    for least, most, part in rest:
        inside.add_op(tail.guard(least, most, part))
        parts.append(part.block)
    if inside is not block:
        block.add_op(tail.guard(rest[-1][0], rest[0][1], Region(inside)))
    return parts


def _covers(block: Block, guards: Collection[loop.GuardOp]) -> bool:
    """Whether all side effects in a block are under guards."""
    for op in block.ops:
        if op in guards or not has_effect(op):
            continue
        if not isinstance(op, loop.ForOp | loop.GuardOp) or not _covers(op.body.block, guards):
            return False
    return True


def _variants(whole: Region, tail: _Tail, low: int, high: int) -> Iterator[tuple[int, int, Region]]:
    """Yield the copies for outer sums in [low, high], each with its part of the range."""
    unrolled = [(t, f) for t, f in tail.terms if t.loop_kind is loop.LoopKind.UNROLLED]
    lanes = {(t.trip_count, f) for t, f in tail.terms if t.loop_kind is loop.LoopKind.VECTORIZED}
    if not all(tile.loop_kind in _TILE_KINDS for tile, _ in tail.terms):
        # The body of the serial loop over tiles was split itself.
        yield low, high, whole.clone()
        return
    if not lanes and _is_reduction(unrolled, tail):
        yield low, high, _copy(whole, {tile: None for tile, _ in unrolled})
        return
    step = next(iter(lanes))[0] if lanes else 1
    is_regular = (
        lanes <= {(step, 1)}
        and {f for _, f in unrolled} <= {step}
        and all(_covers(tile.body.block, tail.guards_of(tile)) for tile, _ in unrolled)
    )
    if not is_regular or not unrolled or high // step >= _MOST_COPIES:
        yield low, high, whole.clone()
        return
    for count in range(high // step + 1, low // step, -1):
        part = _copy(whole, {tile: count for tile, _ in unrolled})
        yield max(low, (count - 1) * step), min(high, count * step - 1), part


def _is_reduction(unrolled: Sequence[tuple[loop.ForOp, int]], tail: _Tail) -> bool:
    """Whether no store under the guards depends on the loops of a tile."""
    variables = {tile.induction_variable for tile, _ in unrolled}
    for condition in tail.conditions:
        for op in walk_ops(condition.guard):
            if isinstance(op, loop.IntrinOp):
                return False
            if isinstance(op, loop.StoreOp) and not variables.isdisjoint(op.indices):
                return False
    return True


def _copy(whole: Region, counts: Mapping[loop.ForOp, int | None]) -> Region:
    """Return a copy in which loops run fewer iterations, or are serial."""
    part = whole.clone()
    pairs = list(zip(_walk(whole), _walk(part), strict=True))
    for old, new in pairs:
        if not isinstance(old, loop.ForOp) or old not in counts:
            continue
        assert isinstance(new, loop.ForOp)
        count = counts[old]
        if count is None:
            new.kind = loop.LoopKindAttr(loop.LoopKind.SERIAL)
        elif count < new.trip_count:
            new.extent = IntegerAttr(count, i64)
    return part


def _walk(region: Region) -> Iterator[Operation]:
    for op in region.block.ops:
        yield from walk_ops(op)
