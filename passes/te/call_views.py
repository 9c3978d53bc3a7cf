"""Calls of functions whose tensors got other shapes: views in the host function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects.graph.shape import ReshapeOp
from tcopt.dialects.graph.types import shape_of
from tcopt.dialects.te import CallOp
from tcopt.support.rewriting import erase


def adapt_calls(module: ModuleOp, changed: Mapping[str, FunctionType]) -> None:
    """Call functions by their new types, through views of operands and results.

    Args:
        changed: the new type of each function whose tensors have other shapes now.
    """
    if not changed:
        return
    for call in list(module.walk()):
        if isinstance(call, CallOp) and call.callee.string_value() in changed:
            _adapt_call(call, changed[call.callee.string_value()])


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
    erase(call)
    _drop_unused_views(users)


def _drop_unused_views(owners: Sequence[object]) -> None:
    for op in owners:
        while isinstance(op, ReshapeOp) and op.parent is not None and not op.results[0].uses:
            source = op.x.owner
            erase(op)
            op = source


def _shape(type_: Attribute) -> tuple[int, ...]:
    assert isa(type_, TensorType)
    return type_.get_shape()
