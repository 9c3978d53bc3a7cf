"""Conditions of guards, each over the values that it uses."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from tcopt.dialects import loop
from tcopt.support.syntax.access_syntax import unique_operands

Condition = tuple[AffineMap, tuple[SSAValue, ...], int]
"""An expression over index values, and its extent."""


def conditions_of(op: loop.GuardOp) -> list[Condition]:
    """Return the conditions of a guard, each over the values that it uses."""
    result: list[Condition] = []
    for expr, extent in zip(op.map.data.results, op.condition_extents, strict=True):
        map, values = unique_operands(AffineMap(op.map.data.num_dims, 0, (expr,)), op.indices)
        result.append((map, tuple(values), extent))
    return result


def make_guard(conditions: Sequence[Condition], body: Region) -> loop.GuardOp:
    """Return one guard for several conditions."""
    exprs: list[AffineExpr] = []
    values: list[SSAValue] = []
    for map, operands, _ in conditions:
        dims = [AffineExpr.dimension(len(values) + i) for i in range(len(operands))]
        exprs.append(map.results[0].replace_dims_and_symbols(dims, ()))
        values += operands
    merged, operands = unique_operands(AffineMap(len(values), 0, tuple(exprs)), values)
    return loop.GuardOp(merged, operands, [extent for _, _, extent in conditions], body)
