"""Merging of neighbouring axes that every stage of a function goes through as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from tcopt.dialects.graph.shape import ReshapeOp
from tcopt.dialects.graph.types import shape_of
from tcopt.dialects.te import CallOp, ComputeOp, FuncOp
from tcopt.passes.te.axis_groups import find_grouping
from tcopt.passes.te.regroup import regroup
from tcopt.passes.te.te_inline import PRODUCTS, is_contraction


@dataclass(frozen=True)
class MergeAxes(ModulePass):
    """Make one axis of neighbouring ones that are always read together, and drop axes of one
    point.

    Rows become longer, so that vectors fill and indices need no division, and functions over
    different shapes become alike. Functions that sum products keep their axes, whose parts
    schedules tell apart. The host function gets views with the new shapes.

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
    """

    name = "merge-axes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        changed: dict[str, FunctionType] = {}
        for function in list(op.ops):
            if isinstance(function, FuncOp) and _may_change(function):
                grouping = find_grouping(function)
                if not grouping.is_trivial:
                    new = regroup(function, grouping)
                    op.body.block.insert_op_before(new, function)
                    function.detach()
                    function.erase()
                    changed[new.sym_name.data] = new.function_type
        if changed:
            for call in list(op.walk()):
                if isinstance(call, CallOp) and call.callee.string_value() in changed:
                    _adapt_call(call, changed[call.callee.string_value()])


def _may_change(function: FuncOp) -> bool:
    extents = [n for stage in function.stages for n in stage.all_extents]
    extents += [n for argument in function.body.block.args for n in shape_of(argument)]
    return 0 not in extents and not any(_is_contraction(stage) for stage in function.stages)


def _is_contraction(stage: ComputeOp) -> bool:
    """Whether a stage sums products of different values; squares have no parts to tell apart."""
    products = [op for op in stage.body.block.ops if isinstance(op, PRODUCTS)]
    return is_contraction(stage) and any(op.lhs is not op.rhs for op in products)


def _adapt_call(call: CallOp, type_: FunctionType) -> None:
    """Call the changed function on views of the operands, and view its results as before."""
    block = call.parent
    assert block is not None

    def view(value: SSAValue, shape: Sequence[int]) -> SSAValue:
        if shape_of(value) == tuple(shape):
            return value
        source = value.owner
        while isinstance(source, ReshapeOp):
            value, source = source.x, source.x.owner
        if shape_of(value) == tuple(shape):
            return value
        reshape = ReshapeOp(value, shape)
        reshape.location = call.location
        block.insert_op_before(reshape, call)
        return reshape.results[0]

    pairs = zip(call.arguments, type_.inputs.data, strict=True)
    operands = [view(value, _shape(wanted)) for value, wanted in pairs]
    new = CallOp(call.callee.string_value(), operands, type_.outputs.data)
    new.attributes.update(call.attributes)
    new.location = call.location
    block.insert_op_before(new, call)
    for old, result in zip(call.res, new.res, strict=True):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(view(result, shape_of(old)))
    users = [value.owner for value in call.arguments]
    call.detach()
    call.erase()
    _drop_unused_views(users)


def _drop_unused_views(owners: Sequence[object]) -> None:
    for op in owners:
        while isinstance(op, ReshapeOp) and op.parent is not None and not op.results[0].uses:
            source = op.x.owner
            op.detach()
            op.erase()
            op = source


def _shape(type_: Attribute) -> tuple[int, ...]:
    assert isa(type_, TensorType)
    return type_.get_shape()
