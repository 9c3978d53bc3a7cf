"""Reads at computed indices: gather and related ops, one_hot."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import (
    Extent,
    Int,
    extent_attr,
    extent_in,
    integer,
)
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    is_signed_int,
    is_unsigned_int,
    normalize_axis,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.graph.movement.slice import SliceOp
from tcopt.dialects.te import api as te
from tcopt.dialects.te.scalar import width_of
from tcopt.support.arithmetic.sizes import is_fixed, upper_bound


class IndexingOp(GraphOp, ABC):
    """Base class of ops that read x at indices; a negative index counts from the end.

    Generated code clamps an out-of-bounds index to the nearest element, so it never accesses other
    memory.
    """

    x = operand_def(TensorType)
    indices = operand_def(TensorType)
    result = result_def(TensorType)

    def check_indices(self) -> None:
        """Raise VerifyException unless the indices are integers."""
        if not isinstance(element_type(self.indices), IntegerType):
            raise VerifyException(f"indices must be integers, got {element_type(self.indices)}")

    def index(self, value: te.Expr, extent: int) -> te.Index:
        """Convert an index value, which may be negative or out of bounds, to an index
        expression."""
        if is_signed_int(element_type(self.indices)):
            if upper_bound(extent) >= 1 << (width_of(value.dtype) - 1):
                value = te.cast(value, "i64")
            wrapped = value + te.const(extent, value.dtype)
            value = te.select(value < te.const(0, value.dtype), wrapped, value)
        return te.index(value)


def _inside(indices: Array, extent: int) -> Array:
    """Normalise indices as generated code does: negative ones count from the end, others are
    clamped."""
    wide = np.minimum(indices, 2**62) if indices.dtype == np.uint64 else indices
    places = wide.astype(np.int64)
    return np.clip(np.where(places < 0, places + extent, places), 0, max(extent - 1, 0))


@irdl_op_definition
class GatherOp(IndexingOp):
    """Slices of x along an axis, selected by an index tensor of any shape.

    The result has the indices' shape in place of the axis, like numpy's take.
    """

    name = "graph.gather"

    axis = prop_def(Int, default_value=integer(0))

    def __init__(self, x: SSAValue | Operation, indices: SSAValue | Operation, *, axis: int = 0):
        value = SSAValue.get(x)
        place = normalize_axis(axis, len(shape_of(value)))
        super().__init__([value, indices], {"axis": integer(place)})

    def infer(self) -> Sequence[AnyTensor]:
        """Return x's shape with the indices' shape in place of the axis."""
        self.check_indices()
        shape, axis = shape_of(self.x), self.axis.value.data
        if not 0 <= axis < len(shape):
            raise VerifyException(f"axis {axis} is outside {self.x.type}")
        extents = (*shape[:axis], *shape_of(self.indices), *shape[axis + 1 :])
        return (tensor(extents, element_type(self.x)),)

    def simplify(self) -> Sequence[Operation] | None:
        """Replace by a slice, if the indices are known and evenly spaced."""
        owner, axis = self.indices.owner, self.axis.value.data
        places = owner.literal_value if isinstance(owner, ConstantOp) else None
        shape = shape_of(self.x)
        if places is None or places.size == 0 or 0 in shape:
            return None
        negative, base = places < 0, 0
        if is_fixed((shape[axis],)):
            places = np.where(negative, places + shape[axis], places)
        elif negative.all():
            base = shape[axis]
        elif negative.any():
            return None
        flat = places.reshape(-1)
        steps = np.diff(flat)
        step = int(steps[0]) if steps.size else 1
        if step == 0 or (steps != step).any():
            return None
        starts, extents, pitches = [0] * len(shape), list(shape), [1] * len(shape)
        starts[axis], extents[axis], pitches[axis] = base + int(flat[0]), flat.size, step
        part = SliceOp(self.x, starts, extents, pitches)
        return (part, ReshapeOp(part, self.shape))

    def compute_sizes(self, *arrays: Array) -> Array | None:
        """Evaluate like `compute`."""
        return self.compute(*arrays)

    def compute(self, x: Array, indices: Array) -> Array:
        """Evaluate the op with numpy."""
        axis = self.axis.value.data
        return np.take(x, _inside(indices, x.shape[axis]), axis=axis)

    def tensor_expression(self, x: te.Tensor, indices: te.Tensor) -> te.Tensor:
        """Return one stage with a computed index."""
        axis, rank = self.axis.value.data, len(indices.shape)

        def body(*axes: te.Axis) -> te.Expr:
            place = self.index(indices[axes[axis : axis + rank]], x.shape[axis])
            return x[(*axes[:axis], place, *axes[axis + rank :])]

        return te.compute(self.shape, body, name="gather")


@irdl_op_definition
class GatherElementsOp(IndexingOp):
    """result[i, j] = x[indices[i, j], j] for axis 0; the result has the indices' shape."""

    name = "graph.gather_elements"

    axis = prop_def(Int, default_value=integer(0))

    def __init__(self, x: SSAValue | Operation, indices: SSAValue | Operation, *, axis: int = 0):
        value = SSAValue.get(x)
        place = normalize_axis(axis, len(shape_of(value)))
        super().__init__([value, indices], {"axis": integer(place)})

    def infer(self) -> Sequence[AnyTensor]:
        """Return the indices' shape with x's element type."""
        self.check_indices()
        shape, places, axis = shape_of(self.x), shape_of(self.indices), self.axis.value.data
        if len(shape) != len(places) or not 0 <= axis < len(shape):
            raise VerifyException(f"{self.indices.type} does not index {self.x.type}")
        fits = (p <= n for d, (n, p) in enumerate(zip(shape, places, strict=True)) if d != axis)
        if not all(fits):
            raise VerifyException(
                f"{self.indices.type} exceeds {self.x.type} in an axis other than {axis}"
            )
        return (tensor(places, element_type(self.x)),)

    def compute(self, x: Array, indices: Array) -> Array:
        """Evaluate the op with numpy."""
        axis = self.axis.value.data
        part = tuple(
            slice(None) if d == axis else slice(0, extent) for d, extent in enumerate(indices.shape)
        )
        return np.take_along_axis(x[part], _inside(indices, x.shape[axis]), axis)

    def tensor_expression(self, x: te.Tensor, indices: te.Tensor) -> te.Tensor:
        """Return one stage with a computed index."""
        axis = self.axis.value.data

        def body(*axes: te.Axis) -> te.Expr:
            place = self.index(indices[axes], x.shape[axis])
            return x[(*axes[:axis], place, *axes[axis + 1 :])]

        return te.compute(self.shape, body, name="gather_elements")


@irdl_op_definition
class GatherNdOp(IndexingOp):
    """Gather slices of x at index vectors, which are the last axis of the indices.

    A vector indexes the leading axes of x. The first `batch_dims` axes are shared by x and the
    indices.
    """

    name = "graph.gather_nd"

    batch_dims = prop_def(Int, default_value=integer(0))

    def __init__(
        self, x: SSAValue | Operation, indices: SSAValue | Operation, *, batch_dims: int = 0
    ):
        super().__init__([x, indices], {"batch_dims": integer(batch_dims)})

    def infer(self) -> Sequence[AnyTensor]:
        """Return the indices' leading axes, followed by x's axes that are not indexed."""
        self.check_indices()
        shape, places, batch = shape_of(self.x), shape_of(self.indices), self.batch_dims.value.data
        if not places or not 0 <= batch < len(places):
            raise VerifyException(f"{self.indices.type} does not hold index vectors")
        depth = batch + places[-1]
        if depth > len(shape) or shape[:batch] != places[:batch]:
            raise VerifyException(f"{self.indices.type} does not index {self.x.type}")
        return (tensor((*places[:-1], *shape[depth:]), element_type(self.x)),)

    def compute(self, x: Array, indices: Array) -> Array:
        """Evaluate the op with numpy."""
        batch = self.batch_dims.value.data
        lead = indices.shape[:-1]
        own = list(np.indices(lead)[:batch])
        computed = [_inside(indices[..., k], x.shape[batch + k]) for k in range(indices.shape[-1])]
        places = tuple(np.broadcast_to(place, lead) for place in (*own, *computed))
        return x[places] if places else np.broadcast_to(x, self.shape)

    def tensor_expression(self, x: te.Tensor, indices: te.Tensor) -> te.Tensor:
        """Return one stage with computed indices."""
        batch, lead = self.batch_dims.value.data, len(indices.shape) - 1

        def body(*axes: te.Axis) -> te.Expr:
            places = [
                self.index(indices[(*axes[:lead], k)], x.shape[batch + k])
                for k in range(indices.shape[-1])
            ]
            return x[(*axes[:batch], *places, *axes[lead:])]

        return te.compute(self.shape, body, name="gather_nd")


@irdl_op_definition
class OneHotOp(GraphOp):
    """values[1] where a new axis equals the index, values[0] elsewhere.

    A negative index counts from the end; one outside [-depth, depth) sets nothing.
    """

    name = "graph.one_hot"

    indices = operand_def(TensorType)
    values = operand_def(TensorType)
    depth = prop_def(Extent)
    axis = prop_def(Int)
    result = result_def(TensorType)

    def __init__(
        self,
        indices: SSAValue | Operation,
        values: SSAValue | Operation,
        *,
        depth: int,
        axis: int = -1,
    ):
        """`axis` is an axis of the result; `values` holds the off and the on value."""
        value = SSAValue.get(indices)
        place = normalize_axis(axis, len(shape_of(value)) + 1)
        super().__init__([value, values], {"depth": extent_attr(depth), "axis": integer(place)})

    def infer(self) -> Sequence[AnyTensor]:
        """Return the indices' shape with the depth inserted, and the values' element type."""
        shape, axis = shape_of(self.indices), self.axis.value.data
        if shape_of(self.values) != (2,):
            raise VerifyException(f"values must hold off and on, got {self.values.type}")
        if not 0 <= axis <= len(shape) or extent_in(self.depth) < 0:
            raise VerifyException(f"axis {axis} is outside a result of rank {len(shape) + 1}")
        extents = (*shape[:axis], extent_in(self.depth), *shape[axis:])
        return (tensor(extents, element_type(self.values)),)

    def compute(self, indices: Array, values: Array) -> Array:
        """Evaluate the op with numpy."""
        axis, depth = self.axis.value.data, extent_in(self.depth)
        shape = [1] * len(self.shape)
        shape[axis] = depth
        places: Array = np.expand_dims(np.where(indices < 0, indices + depth, indices), axis)
        hit: Array = places == np.arange(depth).reshape(shape)
        return np.take(values, hit.astype(np.int64))

    def tensor_expression(self, indices: te.Tensor, values: te.Tensor) -> te.Tensor:
        """Return one stage that compares the new axis with the index."""
        axis, depth = self.axis.value.data, extent_in(self.depth)
        signed = not is_unsigned_int(indices.dtype)

        def body(*axes: te.Axis) -> te.Expr:
            place = indices[(*axes[:axis], *axes[axis + 1 :])]
            if signed:
                wrapped = place + te.const(depth, place.dtype)
                place = te.select(place < te.const(0, place.dtype), wrapped, place)
            return te.select(place == axes[axis], values[1], values[0])

        return te.compute(self.shape, body, name="one_hot")
