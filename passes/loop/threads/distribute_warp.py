"""Distribution of warp-level matrix products over the lanes of a warp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp, VectorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.fragments import LANES, MATRIX, Fragment, place_of_sum
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.dialects.simt import ExchangeRowsOp, MmaOp, MmaSyncOp
from tcopt.dialects.target import TargetFacts, target_facts_of
from tcopt.passes.loop.analysis.indexing import Knowledge, set_access
from tcopt.passes.loop.analysis.surroundings import ranges_inside
from tcopt.support.arithmetic.affine import linear_sum, substitute
from tcopt.support.errors import PassFailedError
from tcopt.support.ir.rewriting import rewrite
from tcopt.support.syntax.access_syntax import unique_operands

ROWS, COLUMNS = 16, 8
"""Shape of a tile of accumulators."""


@dataclass(frozen=True)
class DistributeProducts(RewritePattern):
    """Distribute a buffer, and all warp products that add to it, over the lanes of a warp.

        %c = loop.alloc register : memref<16x8xf32>
        %0 = loop.load %c[0, 0] lanes [1, 0] [0, 1] : memref<16x8xf32>, vector<16x8xf32>
        ...
        %3 = simt.mma %0, %1, %2 : vector<16x16xf16>, vector<16x8xf16> into vector<16x8xf32>
        loop.store %3, %c[0, 0] lanes [1, 0] [0, 1] : memref<16x8xf32>, vector<16x8xf32>
        ->
        %c = loop.alloc register : memref<1x1x32x4xf32>
        loop.for %lane = 0 to 32 thread threadIdx.x {
          %0 = loop.load %c[0, 0, %lane, 0] lanes [0, 0, 0, 1] : ..., vector<4xf32>
          ...
          %3 = simt.mma_sync %0, %1, %2 shape [16, 8, 16] : ... into vector<4xf32>
          loop.store %3, %c[0, 0, %lane, 0] lanes [0, 0, 0, 1] : ..., vector<4xf32>
        }

    Attributes:
        target: target; decides whether lanes can exchange rows.
    """

    target: TargetFacts

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MmaOp, rewriter: PatternRewriter) -> None:
        _Distribution(_Product.of(op).sums, self.target, rewriter).run()


@dataclass(frozen=True)
class DistributeWarpPass(ModulePass):
    """Distribute matrix products of warps over their lanes, and the accumulators over registers.

    Ops of a whole warp are outside of loops over `threadIdx.x`, which has the warp's 32 threads.
    Each product becomes a loop over the lanes, which load their fragments of both factors and
    multiply them by `simt.mma_sync`. A buffer of accumulators becomes one in which each lane has
    four elements of each tile, as defined by `dialects/fragments.py`. Other accesses to it, such as
    its initialisation and an epilogue with bias, activation and casts, must already be in loops
    over the lanes, and must access the lane's own elements.

        loop.for %w = 0 to 4 thread threadIdx.y {
          %c = loop.alloc register : memref<16x16xf32>
          loop.for %j = 0 to 2 {
            %0 = loop.load %c[0, %j * 8] lanes [1, 0] [0, 1] : memref<16x16xf32>, vector<16x8xf32>
            %1 = loop.load %a[%w * 16, 0] lanes [1, 0] [0, 1] : ..., vector<16x16xf16>
            %2 = loop.load %b[0, %j * 8] lanes [1, 0] [0, 1] : ..., vector<16x8xf16>
            %3 = simt.mma %0, %1, %2 : vector<16x16xf16>, vector<16x8xf16> into vector<16x8xf32>
            loop.store %3, %c[0, %j * 8] lanes [1, 0] [0, 1] : memref<16x16xf32>, vector<16x8xf32>
          }
          loop.for %h = 0 to 2 {
            loop.for %lane = 0 to 32 thread threadIdx.x {
              loop.load %c[%h * 8 + %lane floordiv 4, %lane mod 4 * 2] ...
        ->
        loop.for %w = 0 to 4 thread threadIdx.y {
          %c = loop.alloc register : memref<1x2x32x4xf32>
          loop.for %j = 0 to 2 {
            loop.for %lane = 0 to 32 thread threadIdx.x {
              %0 = loop.load %c[0, %j, %lane, 0] lanes [0, 0, 0, 1] : ..., vector<4xf32>
              %1 = loop.load %a[%w * 16 + %lane mod 16, %lane floordiv 16 * 8] lanes [0, 1]
              %2 = simt.exchange_rows %1 : vector<8xf16> to vector<8xf16>
              %3 = loop.load %b[%lane mod 16, %j * 8] lanes [0, 1] : ..., vector<8xf16>
              %4 = simt.exchange_rows transposed %3 : vector<8xf16> to vector<4xf16>
              %5 = simt.mma_sync %0, %2, %4 shape [16, 8, 16] : ... into vector<4xf32>
              loop.store %5, %c[0, %j, %lane, 0] lanes [0, 0, 0, 1] : ..., vector<4xf32>
            }
          }
          loop.for %h = 0 to 2 {
            loop.for %lane = 0 to 32 thread threadIdx.x {
              loop.load %c[0, 0, %lane, %h * 2] ...

    Lanes exchange rows of eight elements if the target has `ldmatrix` and the rows start at
    multiples of 16 bytes in shared memory; otherwise each lane loads its own elements.

    The pass runs after `align-storage` and `lower-blocks`. Targets without warps of 32 threads are
    not changed.

    Raises:
        PassFailedError: an access to accumulators is not to the lane's own elements, or a product
            is in a loop over lanes.
    """

    name = "distribute-warp"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_facts_of(op)
        if target is not None and target.threads is not None and target.threads.warp == LANES:
            rewrite(op, [DistributeProducts(target)], once=True)


class _Distribution:
    """Rewriting of one buffer of accumulators and the products that add to it.

    Args:
        tile: one of the loads of its tiles.
    """

    def __init__(self, tile: loop.LoadOp, target: TargetFacts, rewriter: PatternRewriter):
        function = tile.parent_op()
        while not isinstance(function, loop.FuncOp):
            assert function is not None
            function = function.parent_op()
        self.target = target
        self.rewriter = rewriter
        self.known = ranges_inside(function)
        self.sums = _Sums(tile, self.known)
        self.products = [
            product
            for op in function.walk()
            if isinstance(op, MmaOp) and (product := _Product.of(op)).sums.memref is tile.memref
        ]

    def run(self) -> None:
        for each in self.products:
            self._check_whole_warp(each.op)
            self._spread(each, self.sums)
        self.sums.replace(self.rewriter)

    def _check_whole_warp(self, op: MmaOp) -> None:
        around = list(loop.enclosing_loops(op))
        if any(_is_over_lanes(each) for each in around):
            raise PassFailedError(
                "a warp product is in a loop over its lanes",
                op=op,
                hint="bind none of the loops around it to threadIdx.x",
            )
        for each in around[-1].walk() if around else ():
            if isinstance(each, loop.ForOp) and _is_over_lanes(each) and each.trip_count > LANES:
                raise PassFailedError(
                    f"threadIdx.x has {each.trip_count} threads where a warp has {LANES}",
                    op=each,
                    hint="bind warps to threadIdx.y",
                )

    def _spread(self, tile: _Product, sums: _Sums) -> None:
        """Replace a product by a loop over the lanes."""
        body = Block(arg_types=[IndexType()])
        lane = body.args[0]
        lane.name_hint = "lane"
        depth = _shape(tile.left)[1]
        self.known.ranges[lane] = (0, LANES - 1)
        own = sums.load(tile.sums, lane)
        left = self._fragment(tile.left, Fragment(ROWS, depth), lane)
        right = self._fragment(tile.right, Fragment(depth, COLUMNS, is_right=True), lane)
        made = MmaSyncOp(
            own.result, left[-1].results[0], right[-1].results[0], (ROWS, COLUMNS, depth)
        )
        store = loop.StoreOp(
            made.result, own.memref, own.map.data, own.indices, lanes=_flat_steps(own)
        )
        new: list[Operation] = [own, *left, *right, made, store]
        for op in new:
            op.location = tile.op.location
        body.add_ops(new)
        lanes = loop.ForOp(LANES, Region(body), loop.LoopKind.THREAD, loop.ThreadAxis.THREAD_X)
        lanes.location = tile.op.location
        self.rewriter.insert(lanes, InsertPoint.before(tile.store))
        tile.erase(self.rewriter)

    def _fragment(self, tile: loop.LoadOp, part: Fragment, lane: SSAValue) -> list[Operation]:
        """Return ops that load a lane's elements of a factor; the last one is the result."""
        dim = self._direction_of_rows(tile, part)
        if dim is not None:
            transposed = dim != part.along
            at = part.row_origin(AffineDimExpr(0), transposed=transposed)
            row = self._load(tile, at, lane, [(MATRIX, (0, 1) if dim else (1, 0))])
            return [row, ExchangeRowsOp(row.result, part.matrices, transposed=transposed)]
        box = list(part.box)
        steps = tile.lane_steps[part.along]
        if _flat(steps, buffer_shape(tile.memref)) != 1:
            # The elements of a lane are not contiguous: each is loaded separately.
            box.append((1, (0, 0)))
        return [self._load(tile, part.origin(AffineDimExpr(0)), lane, box)]

    def _direction_of_rows(self, tile: loop.LoadOp, part: Fragment) -> int | None:
        """Return the dimension of a tile along which `ldmatrix` can load rows of eight, or None."""
        if "ldmatrix" not in self.target.capabilities or not _is_shared(tile.memref):
            return None
        shape = buffer_shape(tile.memref)
        exprs, steps = tile.map.data.results, tile.lane_steps
        first = self.known.linear(_flat_expr(exprs, shape), tile.indices)
        if first.constant % MATRIX or any(factor % MATRIX for _, factor in first.terms):
            return None
        for along in (part.along, 1 - part.along):
            if (
                _flat(steps[along], shape) == 1
                and steps[along][-1] == 1
                and _flat(steps[1 - along], shape) % MATRIX == 0
            ):
                return along
        return None

    def _load(
        self,
        tile: loop.LoadOp,
        at: tuple[AffineExpr, AffineExpr],
        lane: SSAValue,
        box: Sequence[tuple[int, tuple[int, int]]],
    ) -> loop.LoadOp:
        """Load a box of a tile, whose first row and column are expressions of the lane."""
        rows = tile.lane_steps
        indices = [*tile.indices, lane]
        place = [substitute(expr, [AffineDimExpr(len(indices) - 1)]) for expr in at]
        exprs = [
            expr + place[0] * down + place[1] * across
            for expr, down, across in zip(tile.map.data.results, *rows, strict=True)
        ]
        map, values = self.known.simplify(exprs, indices)
        lanes: list[int] = []
        for extent, (down, across) in box:
            if extent == 1:
                lanes += [*[0] * (len(rows[0]) - 1), 1]
            else:
                lanes += [down * r + across * c for r, c in zip(*rows, strict=True)]
        assert isa(tile.memref.type, MemRefType)
        type_ = VectorType(tile.memref.type.get_element_type(), [extent for extent, _ in box])
        return loop.LoadOp(tile.memref, map, values, lanes=lanes, result_type=type_)


@dataclass(frozen=True)
class _Product:
    """A warp product with its loads and its store."""

    op: MmaOp
    sums: loop.LoadOp
    left: loop.LoadOp
    right: loop.LoadOp
    store: loop.StoreOp

    @classmethod
    def of(cls, op: MmaOp) -> _Product:
        loads = [value.owner for value in (op.acc, op.lhs, op.rhs)]
        users = [use.operation for use in op.result.uses]
        store = users[0] if len(users) == 1 else None
        sums, left, right = loads
        if (
            isinstance(sums, loop.LoadOp)
            and isinstance(left, loop.LoadOp)
            and isinstance(right, loop.LoadOp)
            and isinstance(store, loop.StoreOp)
            and store.memref is sums.memref
            and store.map == sums.map
            and tuple(store.indices) == tuple(sums.indices)
            and all(value.has_one_use() for value in (op.acc, op.lhs, op.rhs))
        ):
            return cls(op, sums, left, right, store)
        raise PassFailedError(
            "a warp product does not add to a tile of a buffer",
            op=op,
            hint="lower-intrinsics makes products with their loads and stores",
        )

    def erase(self, rewriter: PatternRewriter) -> None:
        for each in (self.store, self.op, self.sums, self.left, self.right):
            rewriter.erase(each)


class _Sums:
    """A buffer of accumulators, distributed over lanes.

    Args:
        tile: one of the loads of a tile.
    """

    def __init__(self, tile: loop.LoadOp, known: Knowledge):
        buffer, self.known = tile.memref, known
        owner = buffer.owner
        if not isinstance(owner, loop.AllocOp) or not owner.scope.data.in_registers:
            raise PassFailedError("the sums of a warp are not in registers", op=tile)
        self.alloc = owner
        rows, columns = (list(steps) for steps in tile.lane_steps)
        if sorted(map(sum, (rows, columns))) != [1, 1] or 1 not in rows or 1 not in columns:
            raise PassFailedError("a tile of sums is not a rectangle in its buffer", op=tile)
        self.row, self.column = rows.index(1), columns.index(1)
        shape = list(buffer_shape(buffer))
        for dim, size in ((self.row, ROWS), (self.column, COLUMNS)):
            shape[dim] = -(-shape[dim] // size)
        type_ = buffer.type
        assert isa(type_, MemRefType)
        self.type = MemRefType(
            type_.get_element_type(), [*shape, LANES, 4], type_.layout, type_.memory_space
        )
        self.new = loop.AllocOp(self.type, owner.scope.data)
        self.new.result.name_hint = buffer.name_hint
        self.new.location = owner.location

    def load(self, tile: loop.LoadOp, lane: SSAValue) -> loop.LoadOp:
        """Return the load of a lane's four accumulators of a tile."""
        exprs = list(tile.map.data.results)
        ranges = self.known.ranges_of(tile.indices)
        for dim, size in ((self.row, ROWS), (self.column, COLUMNS)):
            total = linear_sum(exprs[dim], ranges)
            if total.constant % size or any(factor % size for _, factor in total.terms):
                raise PassFailedError("a tile of sums overlaps another", op=tile)
            exprs[dim] = exprs[dim] // size
        exprs += [AffineDimExpr(len(tile.indices)), AffineConstantExpr(0)]
        map, values = self.known.simplify(exprs, [*tile.indices, lane])
        lanes = [*[0] * (len(exprs) - 1), 1]
        type_ = VectorType(self.type.get_element_type(), [4])
        return loop.LoadOp(self.new.result, map, values, lanes=lanes, result_type=type_)

    def replace(self, rewriter: PatternRewriter) -> None:
        """Redirect other accesses to the accumulators, and replace the buffer."""
        for use in tuple(self.alloc.result.uses):
            op = use.operation
            if not isinstance(op, loop.LoadOp | loop.StoreOp) or op.lanes is not None:
                raise PassFailedError(
                    "the sums of a warp have users other than loads and stores of elements", op=op
                )
            self._redirect(op)
        rewriter.insert(self.new, InsertPoint.before(self.alloc))
        rewriter.erase(self.alloc)

    def _redirect(self, op: loop.LoadOp | loop.StoreOp) -> None:
        exprs, indices = list(op.map.data.results), list(op.indices)
        lane, matrix, pair = place_of_sum(exprs[self.row], exprs[self.column])
        thread = self._own_lane(op, lane, indices)
        if thread is None:
            raise PassFailedError(
                "a thread accesses sums that belong to another lane of its warp",
                op=op,
                hint="bind rows mod 8, and columns mod 8 floordiv 2, to threadIdx.x",
            )
        for dim, size in ((self.row, ROWS), (self.column, COLUMNS)):
            exprs[dim] = exprs[dim] // size
        exprs += [AffineDimExpr(len(indices)), matrix * 2 + pair]
        map, values = self.known.simplify(exprs, [*indices, thread])
        op.operands[1 if isinstance(op, loop.StoreOp) else 0] = self.new.result
        set_access(op, map, values)

    def _own_lane(
        self, op: Operation, lane: AffineExpr, indices: Sequence[SSAValue]
    ) -> SSAValue | None:
        """Return the thread's lane if an expression equals it in all iterations, or None."""
        threads = [o.induction_variable for o in loop.enclosing_loops(op) if _is_over_lanes(o)]
        if len(threads) != 1 or self.known.ranges[threads[0]] != (0, LANES - 1):
            return None
        (thread,) = threads
        rest = self.known.linear(lane - AffineDimExpr(len(indices)), [*indices, thread])
        if not rest.terms:
            return thread if rest.constant == 0 else None
        map, used = unique_operands(AffineMap(len(indices), 0, (lane,)), indices)
        ranges = self.known.ranges_of(used)
        if thread not in used or prod(high - low + 1 for low, high in ranges) > _MOST_POINTS:
            return None
        at = used.index(thread)
        points = product(*(range(low, high + 1) for low, high in ranges))
        equal = all(map.results[0].eval(point, []) == point[at] for point in points)
        return thread if equal else None


_MOST_POINTS = 1 << 16
"""Maximum iterations that are enumerated if an expression has no simple form."""


def _is_over_lanes(op: loop.ForOp) -> bool:
    return op.axis is not None and op.axis.data is loop.ThreadAxis.THREAD_X


def _flat_steps(access: loop.LoadOp) -> list[int]:
    return [step for row in access.lane_steps for step in row]


def _flat(steps: Sequence[int], shape: Sequence[int]) -> int:
    """Return the stride, in elements, along a dimension of a tile."""
    total = 0
    for step, extent in zip(steps, shape, strict=True):
        total = total * extent + step
    return total


def _flat_expr(exprs: Sequence[AffineExpr], shape: Sequence[int]) -> AffineExpr:
    total: AffineExpr = AffineConstantExpr(0)
    for expr, extent in zip(exprs, shape, strict=True):
        total = total * extent + expr
    return total


def _shape(tile: loop.LoadOp) -> tuple[int, ...]:
    assert isa(tile.result.type, VectorType)
    return tile.result.type.get_shape()


def _is_shared(buffer: SSAValue) -> bool:
    owner = buffer.owner
    return isinstance(owner, loop.AllocOp) and owner.scope.data.is_shared
