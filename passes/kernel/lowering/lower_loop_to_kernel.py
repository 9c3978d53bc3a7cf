"""The pass `lower-loop-to-kernel`.

A walk by hand: ranges of indices from loops and guards are threaded through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects import arith, func, math, memref, scf
from xdsl.dialects.builtin import (
    FunctionType,
    IndexType,
    ModuleOp,
    StringAttr,
    VectorType,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.fast_math import decided
from tcopt.dialects.memref_ import PrefetchOp
from tcopt.dialects.size import (
    SYMBOLS,
    SizeValues,
    dynamic_type,
    function_symbols,
    set_buffer_types,
    size_arguments,
)
from tcopt.dialects.table import ScaleOp
from tcopt.dialects.target import thread_blocks_of
from tcopt.passes.kernel.lowering.host_functions import lower_host
from tcopt.passes.kernel.lowering.kernel_buffers import KernelBuffers
from tcopt.passes.kernel.lowering.lane_masks import Condition
from tcopt.passes.kernel.lowering.lowering_access import AccessLowering
from tcopt.passes.kernel.lowering.lowering_copies import CopyLowering
from tcopt.passes.kernel.lowering.lowering_levels import LevelWriter
from tcopt.passes.kernel.lowering.scope_capacity import check_capacities
from tcopt.passes.kernel.lowering.table_products import scaled
from tcopt.passes.kernel.lowering.thread_axes import LaunchGrid, live_iterations
from tcopt.passes.kernel.lowering.thread_private import drop_thread_dimensions
from tcopt.passes.loop.analysis.contraction import contraction
from tcopt.support.arithmetic.intervals import UNBOUNDED
from tcopt.support.errors import PassFailedError
from tcopt.support.ir.pure_values import is_pure
from tcopt.support.ir.quick_ir import erase_op, keep_name, walk_ops


@dataclass(frozen=True)
class LowerLoopToKernelPass(ModulePass):
    """Lowers every `loop.func` to a `func.func` with structured control flow, and its calls.

    Serial, unrolled and vectorised loops become `scf.for`, perfectly nested parallel loops one
    `scf.parallel`, and guards `scf.if`. Buffers of up to 64 KiB are on the stack. Index arithmetic
    is emitted once, hoisted as far out as its variables allow.

        loop.func @k(%x: memref<64x100xf32>, %y: memref<64xf32>) {
          loop.for %i = 0 to 64 parallel {
            loop.for %j = 0 to 99 {
              %a = loop.load %x[%i, %j + 1]
              ...
        ->
        func.func private @k(%x: memref<64x100xf32>, %y: memref<64xf32>) {
          %c0 = arith.constant 0 : index
          ...
          scf.parallel (%i) = (%c0) to (%c64) step (%c1) {
            scf.for %j = %c0 to %c99 step %c1 {
              %0 = arith.addi %j, %c1 : index
              %a = memref.load %x[%i, %0]
              ...

    Sizes become dynamic dimensions. Extents and strides that depend on them are computed from the
    index arguments, at the start of a function; memory is allocated for the upper bounds:

        loop.func @k(%x: memref<64x100xf32, #size.dims<64, s0[1:100]>>, %s0: index) {
        ->
        func.func private @k(%x: memref<64x?xf32>, %s0: index) {
          %x_1 = memref.reinterpret_cast %x to offset: [0], sizes: [64, %s0], strides: [%s0, 1]
            : memref<64x?xf32> to memref<64x?xf32, strided<[?, 1]>>

    A product whose only user is a sum is fused with it into a multiply-add if both have
    `fastmath<contract>`. The remaining arithmetic is exact: backends do not contract it.

    Raises:
        PassFailedError: blocks are left, or a loop is bound to a thread axis.
    """

    name = "lower-loop-to-kernel"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        is_gpu = thread_blocks_of(op) is not None
        for inner in tuple(op.ops):
            if isinstance(inner, loop.FuncOp):
                grid = LaunchGrid.of(inner) if is_gpu else None
                if is_gpu:
                    drop_thread_dimensions(inner)
                Rewriter.replace_op(inner, FunctionLowering(inner, grid).run(), [])
            elif isinstance(inner, func.FuncOp):
                lower_host(inner)


class FunctionLowering:
    """Lowers one function.

    Args:
        grid: the launch grid of the function, if it is for a GPU.

    Attributes:
        values: the kernel's value of each value of the function.
    """

    def __init__(self, function: loop.FuncOp, grid: LaunchGrid | None = None):
        self.function = function
        self.grid = grid
        self.body = Block(arg_types=list(map(dynamic_type, function.function_type.inputs.data)))
        self.writer = LevelWriter(self.body)
        self.values: dict[SSAValue, SSAValue] = {}
        for old, new in zip(function.body.block.args, self.body.args, strict=True):
            new.name_hint = old.name_hint
            self.values[old] = new
        sizes = self._size_values()
        self.buffers = KernelBuffers(self.writer, sizes, grid)
        if grid is not None:
            grid.sizes = sizes
        self.access = AccessLowering(self.writer, self.buffers)
        self.copies = CopyLowering(self.access, self._mapped)
        self.handlers: dict[type[Operation], Callable[[Any], None]] = {
            loop.AllocOp: self._alloc,
            loop.BarrierOp: self._barrier,
            loop.BlockOp: self._reject_block,
            loop.ForOp: self._for,
            loop.GuardOp: self._guard,
            loop.IndexOp: self._index,
            loop.IntrinOp: self._reject_intrinsic,
            loop.LoadOp: self._load,
            loop.MaskOp: self._mask,
            loop.PrefetchOp: self._prefetch,
            loop.StoreOp: self._store,
            arith.AddfOp: self._sum,
            arith.MulfOp: self._rounded,
            arith.SubfOp: self._rounded,
            ScaleOp: self._scale,
            scf.ForOp: self._counted,
            scf.IfOp: self._if,
        }

    def _size_values(self) -> SizeValues:
        """Return the values of the function's sizes, whose ranges become known."""
        arguments = {
            name: self.values[argument] for name, argument in size_arguments(self.function).items()
        }
        known = self.writer.known
        self.writer.sizes.update(arguments.values())
        for symbol in function_symbols(self.function):
            known.ranges[arguments[symbol.name]] = symbol.low, symbol.high
        return SizeValues(arguments, self.writer.constant, self.writer.index_op)

    def run(self) -> func.FuncOp:
        check_capacities(self.function)
        for argument in self.function.body.block.args:
            if argument.uses:
                self.values[argument] = self.buffers.view(self.values[argument], argument.type)
        self._ops(self.function.body.block)
        self.body.add_op(func.ReturnOp())
        result = func.FuncOp(
            self.function.sym_name.data,
            FunctionType.from_lists(list(self.body.arg_types), []),
            Region(self.body),
            StringAttr("private"),
        )
        result.attributes.update(self.function.attributes)
        result.location = self.function.location
        if self.grid is None:
            result.attributes.pop(SYMBOLS, None)
        else:
            result.attributes.update(self.grid.attributes())
            if symbols := function_symbols(self.function):
                types = self.function.function_type.inputs.data
                set_buffer_types(result, types[: len(types) - len(symbols)])
        _erase_unused_products(result)
        return result

    def _ops(self, block: Block) -> None:
        """Lower a block's ops into the current level."""
        heap: list[SSAValue] = []
        for op in block.ops:
            handler = self.handlers.get(type(op), self._other)
            self.writer.location = op.location
            handler(op)
            if isinstance(op, loop.AllocOp) and (memory := self.buffers.heap.get(op.result)):
                heap.append(memory)
        for buffer in heap:
            self.writer.write(memref.DeallocOp.get(buffer))

    def _mapped(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        return [self.values[value] for value in values]

    def _reject_block(self, op: loop.BlockOp) -> None:
        raise PassFailedError(
            f'block "{op.block_name.data}" is not lowered', op=op, hint="run lower-blocks first"
        )

    def _reject_intrinsic(self, op: loop.IntrinOp) -> None:
        raise PassFailedError(
            f'intrinsic "{op.intrin.data}" is not lowered', op=op, hint="run lower-intrinsics first"
        )

    def _for(self, op: loop.ForOp) -> None:
        if op.loop_kind is loop.LoopKind.THREAD and self.grid is None:
            raise PassFailedError(
                f"a loop is bound to {op.axis.data.value if op.axis else 'a thread axis'}, "
                "but the module's target has no thread blocks",
                op=op,
                hint="schedule the function for a CPU target, or name a GPU by set-target",
            )
        if op.trip_count == 0:
            return
        if op.loop_kind is loop.LoopKind.THREAD:
            self._thread(op)
        elif op.trip_count == 1:
            self._once(op)
        elif self._is_outermost_parallel(op):
            self._parallel(op)
        else:
            self._serial(op)

    def _is_outermost_parallel(self, op: loop.ForOp) -> bool:
        """Whether to distribute a loop among the CPU's threads; a GPU's threads run bound loops."""
        if op.loop_kind is not loop.LoopKind.PARALLEL or self.grid is not None:
            return False
        return not any(
            outer.loop_kind is loop.LoopKind.PARALLEL and outer.trip_count > 1
            for outer in loop.enclosing_loops(op)
        )

    def _thread(self, op: loop.ForOp) -> None:
        """Lower the body of a bound loop, guarded if there are more threads than iterations.

        Inside of a loop with the same axis, its iterations are distributed over the same threads.
        """
        assert self.grid is not None and op.axis is not None
        for outer in loop.enclosing_loops(op):
            if outer.axis == op.axis and outer.trip_count < op.trip_count:
                raise PassFailedError(
                    f"{op.axis.data.value} has {op.trip_count} iterations inside of a loop with "
                    f"{outer.trip_count}, more than there are threads",
                    op=op,
                    hint="split the inner loop by the extent of the outer one",
                )
        position = self.grid.position(op.axis.data, self.writer)
        self.values[op.induction_variable] = position
        exprs: list[AffineExpr] = [AffineDimExpr(0)]
        operands, extents = [position], [op.trip_count]
        if op.limit is not None and live_iterations(op) != self.grid.live[op.axis.data]:
            exprs.append(AffineDimExpr(1) - AffineDimExpr(0) - 1)
            operands.append(self.values[op.limit])
            extents.append(max(self._most(op.limit), 1))
        self._guarded(op.body.block, exprs, operands, extents)

    def _most(self, limit: SSAValue) -> int:
        """Return the length of the range of a limit."""
        low, high = self.writer.known.ranges.get(self.values[limit], UNBOUNDED)
        return high - min(low, 0)

    def _once(self, op: loop.ForOp) -> None:
        """Lower the body of a loop with one iteration, guarded by its limit."""
        self.values[op.induction_variable] = self.writer.constant(0)
        if op.limit is None:
            self._ops(op.body.block)
            return
        limit, extent = self.values[op.limit], max(self._most(op.limit), 1)
        self._guarded(op.body.block, [AffineDimExpr(0) - 1], [limit], [extent])

    def _bound(self, op: loop.ForOp) -> SSAValue:
        """Return the number of iterations of a loop."""
        writer, trips = self.writer, op.trip_count
        most = writer.constant(trips)
        if op.limit is None:
            return most
        limit = self.values[op.limit]
        low, high = writer.known.ranges.get(limit, UNBOUNDED)
        if low < 0:
            limit = writer.pure(arith.MaxSIOp, (limit, writer.constant(0)), IndexType())
        if high > trips:
            limit = writer.pure(arith.MinSIOp, (limit, most), IndexType())
        return limit

    def _serial(self, op: loop.ForOp) -> None:
        writer = self.writer
        zero, one = writer.constant(0), writer.constant(1)
        bound = self._bound(op)
        block = self._loop_block([op])
        with writer.level(block, is_loop=True):
            self._ops(op.body.block)
            writer.write(scf.YieldOp())
        new = scf.ForOp(zero, bound, one, [], Region(block))
        new.attributes.update(op.attributes)
        writer.write(new)

    def _parallel(self, op: loop.ForOp) -> None:
        loops = [op]
        while (inner := _only_parallel_loop(loops[-1])) is not None:
            if inner.limit in [each.induction_variable for each in loops]:
                break
            loops.append(inner)
        writer = self.writer
        zero, one = writer.constant(0), writer.constant(1)
        bounds = [self._bound(each) for each in loops]
        block = self._loop_block(loops)
        with writer.level(block, is_loop=True):
            self._ops(loops[-1].body.block)
            writer.write(scf.ReduceOp())
        count = len(loops)
        new = scf.ParallelOp([zero] * count, bounds, [one] * count, Region(block))
        new.attributes.update(op.attributes)
        writer.write(new)

    def _loop_block(self, loops: Sequence[loop.ForOp]) -> Block:
        block = Block(arg_types=[IndexType()] * len(loops))
        for each, variable in zip(loops, block.args, strict=True):
            variable.name_hint = each.induction_variable.name_hint
            self.values[each.induction_variable] = variable
            self.writer.known.ranges[variable] = (0, each.trip_count - 1)
        return block

    def _guard(self, op: loop.GuardOp) -> None:
        operands = self._mapped(op.indices)
        self._guarded(op.body.block, op.map.data.results, operands, op.condition_extents)

    def _guarded(
        self,
        body: Block,
        exprs: Sequence[AffineExpr],
        operands: Sequence[SSAValue],
        extents: Sequence[int],
    ) -> None:
        """Lower a block's ops under the condition `0 <= expr < extent` for each pair."""
        writer = self.writer
        conditions: list[SSAValue] = []
        for expr, extent in zip(exprs, extents, strict=True):
            holds = writer.known.decide(expr, operands, extent)
            if holds is False:
                return
            if holds is None:
                conditions.append(writer.is_inside(expr, operands, extent))
        with writer.inside_guard(exprs, operands, extents):
            if not conditions:
                self._ops(body)
                return
            block = Block()
            with writer.level(block, is_loop=False):
                self._ops(body)
                writer.write(scf.YieldOp())
        writer.write(scf.IfOp(writer.all_of(conditions), [], Region(block)))

    def _counted(self, op: scf.ForOp) -> None:
        """Lower a loop without results whose bounds are data, as handwritten kernels have."""
        if op.results:
            raise PassFailedError("a loop with results is left in a kernel", op=op)
        block = Block(arg_types=[IndexType()])
        block.args[0].name_hint = op.body.block.args[0].name_hint
        self.values[op.body.block.args[0]] = block.args[0]
        with (
            self.writer.inside_guard([], [], []),
            self.writer.level(block, is_loop=True),
        ):
            self._ops(op.body.block)
        lower, upper, step = self._mapped([op.lb, op.ub, op.step])
        self.writer.write(scf.ForOp(lower, upper, step, [], Region(block)))

    def _if(self, op: scf.IfOp) -> None:
        """Lower a branch without results on data, as handwritten kernels have."""
        if op.results or op.false_region.blocks:
            raise PassFailedError("a branch with results or an else is left in a kernel", op=op)
        block = Block()
        with self.writer.inside_guard([], [], []), self.writer.level(block, is_loop=False):
            self._ops(op.true_region.block)
        self.writer.write(scf.IfOp(self.values[op.cond], [], Region(block)))

    def _alloc(self, op: loop.AllocOp) -> None:
        self.values[op.result] = self.buffers.allocate(op)

    def _load(self, op: loop.LoadOp) -> None:
        if self.copies.take(op):
            return
        mask = None if op.mask is None else self.values[op.mask]
        buffer, operands = self.values[op.memref], self._mapped(op.indices)
        value = self.access.load(op, buffer, operands, mask)
        keep_name(op.results[0], value)
        self.values[op.results[0]] = value

    def _store(self, op: loop.StoreOp) -> None:
        if self.copies.store(op):
            return
        mask = None if op.mask is None else self.values[op.mask]
        value, buffer = self.values[op.value], self.values[op.memref]
        self.access.store(op, value, buffer, self._mapped(op.indices), mask)

    def _mask(self, op: loop.MaskOp) -> None:
        assert isa(op.result.type, VectorType)
        conditions = [
            Condition(expr, step, extent, extent)
            for expr, (extent, step) in zip(op.map.data.results, op.conditions, strict=True)
        ]
        lanes = op.result.type.get_shape()[0]
        self.values[op.result] = self.access.masks.of(conditions, self._mapped(op.indices), lanes)

    def _prefetch(self, op: loop.PrefetchOp) -> None:
        operands = self._mapped(op.indices)
        indices = [self.writer.index(expr, operands) for expr in op.map.data.results]
        locality = op.locality.value.data
        self.writer.write(PrefetchOp(self.values[op.memref], indices, locality))

    def _barrier(self, op: loop.BarrierOp) -> None:
        from xdsl.dialects import gpu

        self.writer.forget_all_loads()
        barrier = gpu.BarrierOp()
        barrier.attributes.update(op.attributes)
        self.writer.write(barrier)

    def _index(self, op: loop.IndexOp) -> None:
        expr, operands = op.map.data.results[0], self._mapped(op.indices)
        value = self.values[op.result] = self.writer.index(expr, operands)
        self.writer.known.ranges.setdefault(value, self.writer.known.bounds(expr, operands))

    def _sum(self, op: arith.AddfOp) -> None:
        """Lower a sum, fused with a product if possible."""
        found = contraction(op, self.values.__getitem__)
        if found is None:
            self._rounded(op)
            return
        properties = _FMA_PROPERTIES if found.kind is math.FmaOp else {}
        value = self.writer.pure(found.kind, found.operands, op.result.type, properties)
        self.values[op.result] = value

    def _rounded(self, op: arith.AddfOp | arith.MulfOp | arith.SubfOp) -> None:
        """Lower arithmetic that rounds on its own."""
        self._other(op, {**op.properties, "fastmath": decided(op.fastmath)})

    def _scale(self, op: ScaleOp) -> None:
        """Lower a product with a table entry selected at run time."""
        x, index = self._mapped(op.operands)
        self.values[op.result] = scaled(op, x, index, self.writer)

    def _other(self, op: Operation, properties: dict[str, Attribute] | None = None) -> None:
        """Copy an op of a shared dialect; pure ops are emitted once.

        Args:
            properties: replace those of the op.
        """
        if properties is None:
            properties = op.properties
        operands = self._mapped(tuple(op.operands))
        if is_pure(type(op)) and len(op.results) == 1 and not op.attributes:
            (result,) = op.results
            value = self.writer.pure(type(op), operands, result.type, properties)
            keep_name(result, value)
            self.values[result] = value
            return
        if op.regions:
            raise PassFailedError("an op with a region is left in a kernel", op=op)
        if not op.results:
            self.writer.forget_all_loads()
        new = op.clone(dict(zip(op.operands, operands, strict=True)))
        new.properties.update(properties)
        self.writer.write(new)
        self.values.update(zip(op.results, new.results, strict=True))


def _only_parallel_loop(op: loop.ForOp) -> loop.ForOp | None:
    """Return the parallel loop that is the whole body of a loop."""
    inner = op.body.block.first_op
    if isinstance(inner, loop.ForOp) and inner.next_op is None and inner.trip_count > 1:
        return inner if inner.loop_kind is loop.LoopKind.PARALLEL else None
    return None


def _erase_unused_products(function: func.FuncOp) -> None:
    """Erase products that were fused into all their sums."""
    for op in tuple(walk_ops(function)):
        if type(op) is arith.MulfOp and op.results[0].first_use is None:
            erase_op(op)


def _fma_properties() -> dict[str, Any]:
    probe = Block(arg_types=[VectorType(i64, [1])])
    op = math.FmaOp(probe.args[0], probe.args[0], probe.args[0])
    properties = dict(op.properties)
    op.erase()
    return properties


_FMA_PROPERTIES = _fma_properties()
