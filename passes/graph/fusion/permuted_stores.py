"""Analysis of ops that permute elements: whether a producer can store in the permuted order."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir.affine import AffineDimExpr, AffineExpr

from tcopt.dialects.graph.core.attributes import FusionKind
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import bytes_of, element_type, shape_of, type_of
from tcopt.dialects.te import api as te
from tcopt.dialects.te.expr import Axis, Read
from tcopt.dialects.te.tensor import Stage, Tensor
from tcopt.support.arithmetic.affine import simplify, substitute
from tcopt.support.arithmetic.intervals import extents_to_ranges
from tcopt.support.arithmetic.permutations import inverse_permutation, stride_in_groups
from tcopt.support.arithmetic.sizes import is_fixed, upper_bound
from tcopt.support.errors import UndecidedSize
from tcopt.support.machines.machine import kernel_cycles
from tcopt.support.machines.thread_blocks import ThreadBlocks

SQUARE = 4
"""Number of vectors that are transposed together in registers before storing."""


def may_permute(op: GraphOp) -> bool:
    """Whether an op can be part of a chain of ops that permutes elements."""
    if op.fusion_kind is not FusionKind.INJECTIVE or op.is_elementwise or op.is_joined:
        return False
    if len(op.operands) != 1 or len(op.results) != 1 or 0 in op.shape:
        return False
    return not op.is_border


def stores_vectors(ops: Sequence[GraphOp], lanes: int, *, transposes: bool = True) -> bool:
    """Whether a chain of ops permutes elements such that vectors can be stored directly.

    A vector along the last axis of the chain's operand must be contiguous in the chain's result, or
    else its elements must be adjacent to those of neighbouring vectors, which are then transposed
    in registers.

    Args:
        lanes: number of lanes of a vector.
        transposes: whether vectors may be transposed in registers.
    """
    shape = shape_of(ops[0].operands[0])
    places = _places(ops)
    if places is None or not shape or shape[-1] == 1:
        return False
    target = ops[-1].shape
    if not is_fixed((*shape[-1:], *target[-1:])):
        return False
    # Inner extents are numbers: bounds of the others do not change which elements are adjacent.
    shape, target = (tuple(map(upper_bound, extents)) for extents in (shape, target))
    last = len(shape) - 1
    step = stride_in_groups(places, shape, last, lanes, target)
    if step is None:
        return False
    if step == 1:
        return True
    return transposes and any(
        shape[dim] >= SQUARE and stride_in_groups(places, shape, dim, SQUARE, target) == 1
        for dim in range(last)
    )


def stores_apart(ops: Sequence[GraphOp], threads: ThreadBlocks) -> bool:
    """Whether ops permute elements, and uncoalesced stores are estimated to take less time than
    permuting the elements in a separate launch."""
    if threads.warp == 1 or _places(ops) is None:
        return False
    moved = bytes_of(ops[-1].type)
    apart = upper_bound(prod(ops[-1].shape)) * threads.sector
    return kernel_cycles(threads, 0, apart - moved) < kernel_cycles(threads, 0, 2 * moved, starts=1)


def _places(ops: Sequence[GraphOp]) -> tuple[AffineExpr, ...] | None:
    """Return the map from indices of the first operand to indices of the result.

    None if the ops do not permute elements.
    """
    # A permutation that depends on no size is one of the bounds too.
    target, source = (
        type_of(value).get_shape() for value in (ops[-1].results[0], ops[0].operands[0])
    )
    indices: list[AffineExpr] | None = None
    for op in reversed(ops):
        x = te.placeholder(shape_of(op.operands[0]), element_type(op.operands[0]))
        try:
            read = _read_of(op.tensor_expression(x), x)
        except (te.ExpressionError, UndecidedSize):
            return None
        if read is None:
            return None
        if indices is not None:
            ranges = extents_to_ranges(target)
            read = [simplify(substitute(expr, indices), ranges) for expr in read]
        indices = read
    assert indices is not None
    return inverse_permutation(indices, target, source)


def _read_of(value: Tensor, source: Tensor) -> list[AffineExpr] | None:
    """Return the index map of a tensor that only reads `source`; None for other tensors."""
    if not isinstance(value, Stage) or value.combiner is not None:
        return None
    body = value.body
    if not isinstance(body, Read) or body.tensor is not source or body.default is not None:
        return None
    found: list[AffineExpr] = []
    for index in body.indices:
        axes: list[AffineExpr] = []
        for axis in index.dims:
            if not isinstance(axis, Axis):
                return None
            place = next(i for i, own in enumerate(value.axes) if own is axis)
            axes.append(AffineDimExpr(place))
        found.append(substitute(index.expr, axes))
    return found
