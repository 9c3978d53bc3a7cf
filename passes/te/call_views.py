"""Adaptation of calls to functions whose tensors were reshaped, by views in the host function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import SymbolTable

from tcopt.dialects.graph.core.types import shape_of
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.size import dims_attr, extents_of, function_symbols, substitute_type
from tcopt.dialects.te import CallOp
from tcopt.passes.te.renumber_sizes import RenumberedSizes
from tcopt.support.arithmetic.sizes import Extent, substitute
from tcopt.support.ir.rewriting import erase, insert, replace_by


def adapt_calls(
    module: ModuleOp,
    changed: Mapping[str, FunctionType],
    renumbered: Mapping[str, RenumberedSizes] | None = None,
) -> None:
    """Update calls to the new function types, with views of operands and results.

    Args:
        changed: the new type of each function whose tensors were reshaped.
        renumbered: for functions with new sizes, these as expressions of the former ones.
    """
    for op in tuple(module.walk()) if changed else ():
        if isinstance(op, CallOp) and (name := op.callee.string_value()) in changed:
            _renumber(op, (renumbered or {}).get(name))
            _adapt(op, changed[name])


def _renumber(op: CallOp, renumbered: RenumberedSizes | None) -> None:
    """Give the values of a function's new sizes."""
    if renumbered is None or op.sizes is None:
        return
    former = dict(zip(renumbered.names, op.sizes.extents, strict=True))
    op.sizes = dims_attr(substitute(value, former) for value in renumbered.values)


def _adapt(op: CallOp, type_: FunctionType) -> None:
    """Call a reshaped function on views of the operands, and view its results in the old shapes."""
    values = _size_values(op)
    pairs = zip(op.arguments, type_.inputs.data, strict=not values)
    operands = [_view(value, _shape(wanted, values), op) for value, wanted in pairs]
    result_types = [substitute_type(each, values) for each in type_.outputs]
    new = CallOp(op.callee.string_value(), operands, result_types, op.sizes)
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


def _size_values(op: CallOp) -> dict[str, Extent]:
    """Return the values that a call gives to the sizes of its function, by name."""
    if op.sizes is None:
        return {}
    function = SymbolTable.lookup_symbol(op, op.callee)
    assert function is not None
    names = [symbol.name for symbol in function_symbols(function)]
    return dict(zip(names, op.sizes.extents, strict=True))


def _shape(type_: Attribute, values: Mapping[str, Extent]) -> tuple[int, ...]:
    return cast("tuple[int, ...]", extents_of(substitute_type(type_, values)))
