"""Structural equality of two modules."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    ModuleOp,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from tcopt.support.arithmetic.affine import substitute


def difference(first: ModuleOp, second: ModuleOp) -> str | None:
    """Return the first difference between two modules, or None if they are equal.

    Index operands may be ordered differently, because texts name them inline: the expressions must
    be equal over the same values. A uniform literal may be stored as one element or as all.
    """
    ops, others = list(first.walk()), list(second.walk())
    if [op.name for op in ops] != [op.name for op in others]:
        return "the ops differ"
    values: dict[SSAValue, SSAValue] = {}
    for op, other in zip(ops, others, strict=True):
        values.update(zip(op.results, other.results, strict=False))
        for region, other_region in zip(op.regions, other.regions, strict=False):
            for block, other_block in zip(region.blocks, other_region.blocks, strict=False):
                values.update(zip(block.args, other_block.args, strict=False))
    for op, other in zip(ops, others, strict=True):
        if (found := _difference(op, other, values)) is not None:
            return f"{op.name}: {found}: {op} | {other}"
    return None


def _difference(op: Operation, other: Operation, values: dict[SSAValue, SSAValue]) -> str | None:
    if op.result_types != other.result_types:
        return "result types"
    shapes = [[len(region.blocks) for region in each.regions] for each in (op, other)]
    counts = [
        [[len(b.ops) for b in region.blocks] for region in each.regions] for each in (op, other)
    ]
    if shapes[0] != shapes[1] or counts[0] != counts[1]:
        return "regions"
    types = [
        [[a.type for a in b.args] for region in each.regions for b in region.blocks]
        for each in (op, other)
    ]
    if types[0] != types[1]:
        return "block arguments"
    indices, other_indices = _indices(op), _indices(other)
    ours = [values[v] for v in op.operands if v not in indices]
    if ours != [v for v in other.operands if v not in other_indices]:
        return "operands"
    for name in ("attributes", "properties"):
        one, two = _said(getattr(op, name)), _said(getattr(other, name))
        for key in {*one, *two}:
            if key == "operandSegmentSizes" and indices != other_indices:
                continue
            if _form(one.get(key), [values[v] for v in indices]) != _form(
                two.get(key), other_indices
            ):
                return f"{name} {key}"
    return None


def _said(attributes: dict[str, Attribute]) -> dict[str, Attribute]:
    """Attributes without empty argument and result attributes of a function."""
    return {
        name: value
        for name, value in attributes.items()
        if name not in ("arg_attrs", "res_attrs")
        or any(entry != DictionaryAttr({}) for entry in cast(ArrayAttr[Attribute], value))
    }


def _indices(op: Operation) -> list[SSAValue]:
    """Return the index operands of the op's map; none for other ops."""
    if not any(isinstance(p, AffineMapAttr) for p in op.properties.values()):
        return []
    return list(getattr(op, "indices", None) or getattr(op, "operands_", ()))


def _form(attribute: Attribute | None, operands: list[SSAValue]) -> object:
    """Return an attribute in a form that is equal for equivalent attributes."""
    if isinstance(attribute, AffineMapAttr) and attribute.data.num_dims == len(operands):
        used = {operands[d] for e in attribute.data.results for d in e.used_dims()}
        order = sorted(used, key=id)
        dims: list[AffineExpr] = [
            AffineDimExpr(order.index(v) if v in used else 0) for v in operands
        ]
        results = tuple(substitute(e, dims) for e in attribute.data.results)
        return AffineMap(len(order), 0, results), order
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        size = attribute.type.element_type.compile_time_size
        data = attribute.data.data
        is_uniform = data == data[:size] * (len(data) // size)
        return attribute.type, data[:size] if is_uniform else data
    return attribute
