"""Parts of tensors and their concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import (
    Extents,
    Int,
    Ints,
    extents_attr,
    extents_in,
    integer,
    ints,
)
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    normalize_axis,
    numpy_dtype,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.elementwise.base import same_element_type
from tcopt.dialects.graph.movement.shape import MovementOp, ReshapeOp
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.sizes import is_fixed, lower_bound
from tcopt.support.machines.alignment import ALIGNMENT

CACHE_LINE = 64
"""Size of a cache line in bytes, to which all buffers are aligned."""

_FEW_PARTS = 8
"""Maximum number of parts of a concatenation that are selected by a linear chain."""


@irdl_op_definition
class SliceOp(MovementOp):
    """The elements at starts + index * steps; the result type determines how many.

    Starts are inside the operand; they may be sizes. Steps may be negative, and are 1 by default.
    """

    name = "graph.slice"

    starts = prop_def(Extents)
    steps = opt_prop_def(Ints)

    def __init__(
        self,
        x: SSAValue | Operation,
        starts: Sequence[int],
        extents: Sequence[int],
        steps: Sequence[int] | None = None,
    ):
        """Each list has one entry per axis of x; `extents` is the result's shape."""
        value = SSAValue.get(x)
        stride = ints(steps) if steps is not None and set(steps) - {1} else None
        super().__init__(
            [value],
            {"starts": extents_attr(starts), "steps": stride},
            tensor(extents, element_type(value)),
        )
        self.infer()

    @property
    def strides(self) -> tuple[int, ...]:
        """The step along each axis."""
        if self.steps is None:
            return (1,) * len(self.shape)
        return self.steps.get_values()

    def infer(self) -> Sequence[AnyTensor]:
        """Return the result's shape with the operand's element type."""
        shape, starts, steps = shape_of(self.x), extents_in(self.starts), self.strides
        if not len(shape) == len(starts) == len(steps) == len(self.shape):
            raise VerifyException(f"starts, steps and result do not fit {self.x.type}")
        rows = zip(shape, starts, steps, self.shape, strict=True)
        for axis, (extent, start, step, count) in enumerate(rows):
            if step == 0 or not _is_inside(extent, start, step, count):
                raise VerifyException(
                    f"{count} elements from {start} by {step} exceed axis {axis} of {self.x.type}"
                )
        return (tensor(self.shape, element_type(self.x)),)

    @property
    def is_part(self) -> bool:
        """Whether adjacent elements stay adjacent, so that they can be read in place."""
        return self.strides[-1:] in ((1,), ())

    @property
    def first_element(self) -> int | None:
        """Flat index in the operand of the first element, if the result is contiguous in it: a
        range along the outermost axis with an extent above 1, with the inner axes complete. Else
        None."""
        shape, starts = shape_of(self.x), extents_in(self.starts)
        outer = next((axis for axis, count in enumerate(self.shape) if count != 1), len(shape))
        if 0 in self.shape or shape[outer + 1 :] != self.shape[outer + 1 :]:
            return None
        if any(step != 1 for step in self.strides[outer:]):
            return None
        place = 0
        for extent, start in zip(shape, starts, strict=True):
            place = place * extent + start
        return place

    @property
    def subview_offset(self) -> int | None:
        """Byte offset of a contiguous slice, if it is a number and aligned."""
        if (place := self.first_element) is None:
            return None
        offset = place * numpy_dtype(self.type.element_type).itemsize
        return offset if is_fixed((offset,)) and offset % ALIGNMENT == 0 else None

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if all of it is taken."""
        return None if any(step < 0 for step in self.strides) else self.x

    def simplify(self) -> Sequence[Operation] | None:
        """Merge two consecutive slices."""
        inner = self.x.owner
        if not isinstance(inner, SliceOp) or 0 in self.shape:
            return None
        outer = zip(extents_in(self.starts), self.strides, strict=True)
        rows = list(zip(outer, extents_in(inner.starts), inner.strides, strict=True))
        starts = [base + start * pitch for (start, _), base, pitch in rows]
        steps = [step * pitch for (_, step), _, pitch in rows]
        return (SliceOp(inner.x, starts, self.shape, steps),)

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        places: list[slice] = []
        for start, step, count in zip(
            extents_in(self.starts), self.strides, self.shape, strict=True
        ):
            stop = start + count * step
            places.append(slice(start, None if stop < 0 else stop, step))
        return x[tuple(places)]

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return one stage that reads at start + index * step."""
        rows = list(zip(extents_in(self.starts), self.strides, strict=True))

        def body(*axes: te.Axis) -> te.Expr:
            return x[tuple(a * step + start for a, (start, step) in zip(axes, rows, strict=True))]

        return te.compute(self.shape, body, name="slice")


@irdl_op_definition
class ConcatOp(GraphOp):
    """Concatenation of tensors along an axis."""

    name = "graph.concat"

    inputs = var_operand_def(TensorType)
    axis = prop_def(Int)
    result = result_def(TensorType)

    def __init__(self, inputs: Sequence[SSAValue | Operation], *, axis: int):
        values = [SSAValue.get(value) for value in inputs]
        if not values:
            raise VerifyException("nothing to concatenate")
        place = normalize_axis(axis, len(shape_of(values[0])))
        super().__init__(values, {"axis": integer(place)})

    def infer(self) -> Sequence[AnyTensor]:
        """Return the common shape, with the sum of the extents along the axis."""
        if not self.inputs:
            raise VerifyException("nothing to concatenate")
        element = same_element_type(*self.inputs)
        shapes = [shape_of(value) for value in self.inputs]
        axis = self.axis.value.data
        if not 0 <= axis < len(shapes[0]):
            raise VerifyException(f"axis {axis} is outside {self.inputs[0].type}")
        others = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
        if len(others) != 1 or len({len(shape) for shape in shapes}) != 1:
            raise VerifyException(f"operands differ in an axis other than {axis}")
        total = sum(shape[axis] for shape in shapes)
        return (tensor((*shapes[0][:axis], total, *shapes[0][axis + 1 :]), element),)

    def unchanged(self) -> SSAValue | None:
        """Return the only operand that has elements."""
        parts = [x for x in self.inputs if 0 not in shape_of(x)]
        return parts[0] if len(parts) == 1 else None

    @property
    def is_contiguous(self) -> bool:
        """Whether the result is the operands' data in memory order."""
        return all(extent == 1 for extent in self.shape[: self.axis.value.data])

    def simplify(self) -> Sequence[Operation] | None:
        """Replace adjacent contiguous parts of one tensor, as a split produces them, by a slice or
        reshape of that tensor."""
        if not self.is_contiguous or 0 in self.shape:
            return None
        parts = [_part_of(value) for value in self.inputs]
        found = {source for source, _ in parts}
        sizes = accumulate((prod(shape_of(value)) for value in self.inputs), initial=parts[0][1])
        if len(found) != 1 or any(at != end for (_, at), end in zip(parts, sizes, strict=False)):
            return None
        (whole,), (_, start) = found, parts[0]
        shape, count = shape_of(whole), prod(self.shape)
        if count == prod(shape):
            return (ReshapeOp(whole, self.shape),)
        axis = next(place for place, extent in enumerate(shape) if extent > 1)
        inner = prod(shape[axis + 1 :])
        if start % inner or count % inner:
            return None
        starts, extents = [0] * len(shape), list(shape)
        starts[axis], extents[axis] = start // inner, count // inner
        part = SliceOp(whole, starts, extents)
        return (part, ReshapeOp(part, self.shape))

    @property
    def is_joined(self) -> bool:
        """Whether the result is contiguous, and the operands fill whole cache lines."""
        item = numpy_dtype(self.type.element_type).itemsize
        sizes = [prod(shape_of(value)) * item for value in self.inputs]
        # The offsets are the sums of all sizes but the last.
        aligned = all(size % CACHE_LINE == 0 for size in sizes[:-1])
        return (
            self.is_contiguous and aligned and min(map(lower_bound, sizes)) > 0 and len(sizes) > 1
        )

    @property
    def selects(self) -> bool:
        """True: each result element is an operand element, selected by its index along the axis."""
        return True

    def compute_sizes(self, *arrays: Array) -> Array | None:
        """Evaluate like `compute`."""
        return self.compute(*arrays)

    def compute(self, *arrays: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.concatenate(arrays, self.axis.value.data)

    def tensor_expression(self, *inputs: te.Tensor) -> te.Tensor:
        """Return one stage that selects the operand by the index along the axis, by bisection while
        there are many."""
        axis = self.axis.value.data
        starts = accumulate((x.shape[axis] for x in inputs), initial=0)
        parts = [(x, start) for x, start in zip(inputs, starts, strict=False) if x.shape[axis] != 0]

        def body(*axes: te.Axis) -> te.Expr:
            def read(x: te.Tensor, start: int) -> te.Expr:
                return x[(*axes[:axis], axes[axis] - start, *axes[axis + 1 :])]

            def choose(parts: Sequence[tuple[te.Tensor, int]]) -> te.Expr:
                if len(parts) > _FEW_PARTS:
                    middle = len(parts) // 2
                    _, end = parts[middle]
                    halves = choose(parts[:middle]), choose(parts[middle:])
                    return te.if_then_else(axes[axis] < end, *halves)
                value = read(*parts[-1])
                for (x, start), (_, end) in zip(parts[-2::-1], parts[:0:-1], strict=True):
                    value = te.if_then_else(axes[axis] < end, read(x, start), value)
                return value

            return choose(parts)

        return te.compute(self.shape, body, name="concat")


def _is_inside(extent: int, start: int, step: int, count: int) -> bool:
    """Whether all elements of a slice are inside of an axis; see `SliceOp`."""
    if count == 0:
        return True
    last = start + (count - 1) * step
    # The count may be 0 for some values of sizes: compare only the ends that are elements then.
    return start >= 0 and last < extent if step > 0 else start < extent and last >= 0


def _part_of(value: SSAValue) -> tuple[SSAValue, int]:
    """Return the tensor that a value is a contiguous part of, ignoring shapes, and the flat index
    where the part begins."""
    inner = value
    while isinstance(inner.owner, ReshapeOp):
        inner = inner.owner.x
    if isinstance(inner.owner, SliceOp) and (start := inner.owner.first_element) is not None:
        return inner.owner.x, start
    return value, 0
