"""Adaptation of calls to functions whose tensors were reshaped, by views in the host function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.utils.hints import isa

from tcopt.dialects.graph.shape import ReshapeOp
from tcopt.dialects.graph.types import shape_of
from tcopt.dialects.te import CallOp
from tcopt.support.ir.rewriting import rewrite


def adapt_calls(module: ModuleOp, changed: Mapping[str, FunctionType]) -> None:
    """Update calls to the new function types, with views of operands and results.

    Args:
        changed: the new type of each function whose tensors were reshaped.
    """
    if changed:
        rewrite(module, [AdaptCall(changed)], once=True)


@dataclass(frozen=True)
class AdaptCall(RewritePattern):
    """Call a reshaped function on views of the operands, and view its results in the old shapes.

        %r = te.call @f(%v) : (tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
        ->
        %0 = graph.reshape %v : tensor<8x16xf32>
        %1 = te.call @f(%0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
        %r = graph.reshape %1 : tensor<1x8x4x4xf32>

    Attributes:
        changed: the new types of functions, by name.
    """

    changed: Mapping[str, FunctionType]

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CallOp, rewriter: PatternRewriter) -> None:
        type_ = self.changed.get(op.callee.string_value())
        if type_ is None:
            return
        pairs = zip(op.arguments, type_.inputs.data, strict=True)
        operands = [_view(value, _shape(wanted), rewriter) for value, wanted in pairs]
        new = CallOp(op.callee.string_value(), operands, type_.outputs.data)
        new.attributes.update(op.attributes)
        rewriter.insert(new)
        results: list[SSAValue] = []
        for old, result in zip(op.res, new.res, strict=True):
            result.name_hint = old.name_hint
            results.append(_view(result, shape_of(old), rewriter))
        users = [value.owner for value in op.arguments]
        rewriter.replace(op, [], results)
        _erase_unused_views(users, rewriter)


def _view(value: SSAValue, shape: Sequence[int], rewriter: PatternRewriter) -> SSAValue:
    """Reshape a value, starting from the source of a chain of views."""
    if shape_of(value) == tuple(shape):
        return value
    source = value.owner
    while isinstance(source, ReshapeOp):
        value, source = source.x, source.x.owner
    if shape_of(value) == tuple(shape):
        return value
    return rewriter.insert(ReshapeOp(value, shape)).results[0]


def _erase_unused_views(owners: Sequence[object], rewriter: PatternRewriter) -> None:
    for op in owners:
        while isinstance(op, ReshapeOp) and op.parent is not None and not op.results[0].uses:
            source = op.x.owner
            rewriter.erase(op)
            op = source


def _shape(type_: Attribute) -> tuple[int, ...]:
    assert isa(type_, TensorType)
    return type_.get_shape()
