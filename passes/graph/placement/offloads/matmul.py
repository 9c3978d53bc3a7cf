"""Matrix products of bytes for a matrix unit, as convolutions whose pixels are rows."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from tcopt.dialects.graph.contraction.matmul import MatmulOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import element_type, shape_of
from tcopt.dialects.graph.movement.layout import LayoutTransformOp
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.passes.graph.placement.offload import LARGEST_PRODUCT, Offload, on_matrix_unit


@on_matrix_unit.rule_for(MatmulOp)
def offload_matmul(op: MatmulOp, inner: int, lanes: int) -> Offload | str:
    """Return the form of a product for a matrix unit, or the reason why it has none.

    Rows [.., M, K] become [1, K / inner, rows, inner], the matrix [N / lanes, K / inner, 1, lanes,
    inner], the result [1, N / lanes, rows, lanes].
    """
    types = element_type(op.lhs), element_type(op.rhs), op.sum_element()
    if types != (i8, i8, i32):
        return "its operands are not signed bytes summed in 32 bits"
    if not op.is_by_one_matrix or 0 in (*op.shape, *shape_of(op.lhs)):
        return "it is not a product of rows with one matrix"
    _, columns, depth = op.extents
    count = prod(op.shape[:-1])
    before: list[GraphOp] = []

    def add(made: GraphOp) -> SSAValue:
        before.append(made)
        return made.results[0]

    rows = add(ReshapeOp(op.lhs, (1, count, depth)))
    data = add(LayoutTransformOp(rows, src="NWC", dst=f"NCW{inner}c"))
    by_columns = op.transpose_b is not None
    matrix = add(ReshapeOp(op.rhs, (*shape_of(op.rhs), 1)))
    source = "OIW" if by_columns else "IOW"
    laid_out = add(LayoutTransformOp(matrix, src=source, dst=f"OIW{lanes}o{inner}i"))
    *outer, o, i = shape_of(laid_out)
    weights = add(ReshapeOp(laid_out, (*outer, 1, o, i)))
    product = BlockedConvOp(data, weights, result_element=op.result_element)
    back = LayoutTransformOp(product, src=f"NCW{lanes}c", dst="NWC", shape=(1, count, columns))
    result = ReshapeOp(back, op.shape)
    terms = outer[1] * inner
    products = prod(shape_of(product.results[0])) * terms
    after, channel = [back, result], len(op.shape) - 1
    bound = terms * LARGEST_PRODUCT
    return Offload(before, [product], after, products, bound, channel=channel)
