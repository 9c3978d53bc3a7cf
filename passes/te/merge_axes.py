"""Merging of adjacent axes that every stage of a function traverses together.

A walk by hand: functions are changed as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.passes import ModulePass

from tcopt.dialects.graph.core.types import shape_of
from tcopt.dialects.target import target_facts_of
from tcopt.dialects.target.interface import places_data
from tcopt.dialects.te import ComputeOp, FuncOp
from tcopt.passes.te.axis_groups import find_grouping
from tcopt.passes.te.call_views import adapt_calls
from tcopt.passes.te.regroup import regroup
from tcopt.passes.te.renumber_sizes import RenumberedSizes, renumber_sizes
from tcopt.passes.te.te_inline import PRODUCTS, is_contraction, uses_table
from tcopt.support.ir.rewriting import replace, take_choices


@dataclass(frozen=True)
class MergeAxesPass(ModulePass):
    """Merge adjacent axes that are always read together, and drop axes of extent 1.

    Rows become longer, so that vectors are filled and indices need no division, and functions over
    different shapes become equal. In functions with a contraction, only the two innermost axes are
    merged, and in functions with constant tables none, because schedules need the axes; if the
    function is one matrix product for threads, all its rows are. On targets whose programs manage
    memories, functions without a contraction are not changed, because entries of these memories
    have a fixed number of elements. The host function gets views with the new shapes.

        te.func @f(%x: tensor<1x8x4x4xf32>, %b: tensor<8x1x1xf32>) -> tensor<1x8x4x4xf32> {
          %y = te.compute "add" [%n = 1, %c = 8, %h = 4, %w = 4] : tensor<1x8x4x4xf32> {
            %0 = te.read %x[%n, %c, %h, %w] : tensor<1x8x4x4xf32>
            %1 = te.read %b[%c, 0, 0] : tensor<8x1x1xf32>
            ...
        %r = te.call @f(%v, %b) : ...
    ->
        te.func @f(%x: tensor<8x16xf32>, %b: tensor<8xf32>) -> tensor<8x16xf32> {
          %y = te.compute "add" [%c = 8, %h_w = 16] : tensor<8x16xf32> {
            %0 = te.read %x[%c, %h_w] : tensor<8x16xf32>
            %1 = te.read %b[%c] : tensor<8xf32>
            ...
        %0 = graph.reshape %v : tensor<8x16xf32>
        %1 = graph.reshape %b : tensor<8xf32>
        %2 = te.call @f(%0, %1) : ...
        %r = graph.reshape %2 : tensor<1x8x4x4xf32>

    If the extents of merged axes are different sizes, the function gets a size for their product.
    """

    name = "merge-axes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        changed: dict[str, FunctionType] = {}
        sizes: dict[str, RenumberedSizes] = {}
        target = target_facts_of(op)
        threads = target is not None and target.lanes_are_threads
        for function in tuple(op.ops):
            if not isinstance(function, FuncOp) or not _may_change(function):
                continue
            sums = any(_is_contraction(stage) for stage in function.stages)
            grouping = find_grouping(
                function,
                keeps_axes=sums,
                rows_only=sums and not (threads and _is_product(function)),
            )
            if (places_data(function) and not sums) or grouping.is_trivial:
                continue
            new = regroup(function, grouping)
            take_choices(new, function)
            replace(function, new)
            renumbered = renumber_sizes(new)
            if renumbered is not None:
                sizes[new.sym_name.data] = renumbered
            changed[new.sym_name.data] = new.function_type
        adapt_calls(op, changed, sizes)


def _may_change(function: FuncOp) -> bool:
    extents = [n for stage in function.stages for n in stage.all_extents]
    extents += [n for argument in function.tensor_arguments for n in shape_of(argument)]
    return 0 not in extents and not any(uses_table(stage) for stage in function.stages)


def _is_product(function: FuncOp) -> bool:
    """Whether the only reduction of a function is a sum of products along one axis."""
    reductions = [stage for stage in function.stages if stage.is_reduction]
    return len(reductions) == 1 and len(reductions[0].reduction_extents) == 1


def _is_contraction(stage: ComputeOp) -> bool:
    """Whether a stage sums products of different values; squares have only one operand."""
    products = [op for op in stage.body.block.ops if isinstance(op, PRODUCTS)]
    return is_contraction(stage) and any(op.lhs is not op.rhs for op in products)
