"""Adaptation of calls to functions whose tensors were reshaped, by views in the host function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects.graph.core.types import shape_of
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.te import CallOp
from tcopt.support.ir.rewriting import erase, insert, replace_by


def adapt_calls(module: ModuleOp, changed: Mapping[str, FunctionType]) -> None:
    """Update calls to the new function types, with views of operands and results.

    Args:
        changed: the new type of each function whose tensors were reshaped.
    """
    for op in tuple(module.walk()) if changed else ():
        if isinstance(op, CallOp) and op.callee.string_value() in changed:
            _adapt(op, changed[op.callee.string_value()])


def _adapt(op: CallOp, type_: FunctionType) -> None:
    """Call a reshaped function on views of the operands, and view its results in the old shapes."""
    pairs = zip(op.arguments, type_.inputs.data, strict=True)
    operands = [_view(value, _shape(wanted), op) for value, wanted in pairs]
    new = CallOp(op.callee.string_value(), operands, type_.outputs.data)
    new.attributes.update(op.attributes)
    insert(new, op)
    results: list[SSAValue] = []
    for old, result in zip(op.res, new.res, strict=True):
        result.name_hint = old.name_hint
        results.append(_view(result, shape_of(old), op))
    users = [value.owner for value in op.arguments]
    replace_by(op, results)
    _erase_unused_views(users)


def _view(value: SSAValue, shape: Sequence[int], before: Operation) -> SSAValue:
    """Reshape a value, starting from the source of a chain of views."""
    if shape_of(value) == tuple(shape):
        return value
    source = value.owner
    while isinstance(source, ReshapeOp):
        value, source = source.x, source.x.owner
    if shape_of(value) == tuple(shape):
        return value
    return insert(ReshapeOp(value, shape), before)


def _erase_unused_views(owners: Sequence[object]) -> None:
    for op in owners:
        while isinstance(op, ReshapeOp) and op.parent is not None and not op.results[0].uses:
            source = op.x.owner
            erase(op)
            op = source


def _shape(type_: Attribute) -> tuple[int, ...]:
    assert isa(type_, TensorType)
    return type_.get_shape()
