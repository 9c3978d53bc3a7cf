"""Tests of whether an access is inside of its buffer, as ops on index values."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, i1
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap

from tcopt.dialects.arith_ import CmpiOp
from tcopt.dialects.loop.access import LoadOp
from tcopt.dialects.loop.index_ops import IndexOp
from tcopt.dialects.loop.structure import function_of
from tcopt.dialects.size import size_arguments, size_expression
from tcopt.support.arithmetic.sizes import Extent
from tcopt.support.syntax.access_syntax import unique_operands


def inside_test(op: LoadOp, extents: Mapping[int, Extent]) -> list[Operation]:
    """Return new ops, the last of which tests whether a load is inside of its buffer.

    Args:
        extents: the extent of the buffer along each tested dimension, at least one.
    """
    ops: list[Operation] = []
    inside: SSAValue | None = None
    for dim, extent in extents.items():
        map = AffineMap(op.map.data.num_dims, 0, (op.map.data.results[dim],))
        index = IndexOp(*unique_operands(map, op.indices))
        end = _value_of(extent, op)
        # Unsigned, so that a negative index compares as too large.
        test = CmpiOp(index.result, end.results[0], "ult")
        ops += [index, end, test]
        if inside is None:
            inside = test.result
        else:
            both = arith.AndIOp(inside, test.result, i1)
            ops.append(both)
            inside = both.result
    return ops


def _value_of(extent: Extent, op: Operation) -> Operation:
    """Return an op with the value of an extent, over the sizes of the function around an op."""
    if isinstance(extent, int):
        return arith.ConstantOp(IntegerAttr(extent, IndexType()))
    function = function_of(op)
    arguments: Mapping[str, SSAValue] = {} if function is None else size_arguments(function)
    expr, values = size_expression(extent, arguments)
    return IndexOp(*unique_operands(AffineMap(len(values), 0, (expr,)), values))
