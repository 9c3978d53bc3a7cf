"""Writes at computed indices: scatter_elements and scatter_nd."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import (
    Int,
    ScatterReduction,
    ScatterReductionAttr,
    integer,
)
from tcopt.dialects.graph.core.constant import uniform_value
from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    normalize_axis,
    shape_of,
    type_of,
)
from tcopt.dialects.loop.writer import Buffer, KernelWriter
from tcopt.dialects.loop.writer_scalar import INDEX, Operand, Scalar

_NUMPY = {
    ScatterReduction.ADD: np.add,
    ScatterReduction.MUL: np.multiply,
    ScatterReduction.MAX: np.maximum,
    ScatterReduction.MIN: np.minimum,
}


class ScatterOp(OpaqueOp, ABC):
    """x with elements replaced by updates, or combined with them by the `reduction`.

    A negative index counts from the end; an index outside x is ignored. Updates are applied in
    order.

    If x has no other later use it is updated in place, so the run time depends on the updates
    alone.
    """

    OVERWRITES: ClassVar[int | None] = 0

    x = operand_def(TensorType)
    indices = operand_def(TensorType)
    updates = operand_def(TensorType)
    reduction = prop_def(
        ScatterReductionAttr, default_value=ScatterReductionAttr(ScatterReduction.NONE)
    )
    result = result_def(TensorType)

    @abstractmethod
    def check(self, x: Sequence[int], indices: Sequence[int], updates: Sequence[int]) -> bool:
        """Whether the shapes match."""

    def infer(self) -> Sequence[AnyTensor]:
        """Return x's type."""
        if not isinstance(element_type(self.indices), IntegerType):
            raise VerifyException(f"indices must be integers, got {element_type(self.indices)}")
        if element_type(self.updates) != element_type(self.x):
            raise VerifyException(
                f"updates {self.updates.type} and data {self.x.type} differ in type"
            )
        if not self.check(shape_of(self.x), shape_of(self.indices), shape_of(self.updates)):
            raise VerifyException(
                f"indices {self.indices.type} and updates {self.updates.type} do not fit "
                f"{self.x.type}"
            )
        return (type_of(self.x),)

    @property
    def variant(self) -> str:
        """Value of x if it is uniform, which is then not read."""
        return str(uniform_value(self.operands[0]))

    def fill(self, k: KernelWriter, x: Buffer, result: Buffer) -> None:
        """Copy x, unless it is the result's buffer; a uniform x is not read."""
        if result is x:
            return
        number = uniform_value(self.operands[0])

        def value(at: Sequence[Scalar | int]) -> Operand:
            return x[at] if number is None else number

        if not x.shape:
            result[[]] = value([])
            return
        # Trailing dimensions of extent 1 have no contiguous elements.
        last = max((d for d, extent in enumerate(x.shape) if extent != 1), default=0)
        rest = [0] * (len(x.shape) - last - 1)
        with k.loops(x.shape[:last], parallel=True) as line:
            for parts in k.parts(x.shape[last]):
                with parts as part, part.places() as (place, _):
                    at = [*line, place, *rest]
                    result[at] = value(at)

    def update(self, k: KernelWriter, result: Buffer, place: Sequence[Scalar], new: Scalar) -> None:
        """Replace an element, or combine it with the update."""
        match self.reduction.data:
            case ScatterReduction.ADD:
                new = result[place] + new
            case ScatterReduction.MUL:
                new = result[place] * new
            case ScatterReduction.MAX:
                new = result[place].maximum(new)
            case ScatterReduction.MIN:
                new = result[place].minimum(new)
            case _:
                pass
        result[place] = new

    def assign(self, result: Array, places: Any, updates: Array) -> None:
        """Apply the updates with numpy."""
        combine = _NUMPY.get(self.reduction.data)
        if combine is None:
            result[places] = updates
        else:
            combine.at(result, places, updates)


def _wrapped(k: KernelWriter, index: Scalar, extent: int) -> Scalar:
    """Return an index, with negative values counting from the end."""
    place = index.cast(INDEX)
    return k.select(place < 0, place + extent, place, INDEX)


@irdl_op_definition
class ScatterElementsOp(ScatterOp):
    """Set result[indices[i, j], j] = updates[i, j] for axis 0; other elements are those of x."""

    name = "graph.scatter_elements"

    axis = prop_def(Int, default_value=integer(0))

    def __init__(
        self,
        x: SSAValue | Operation,
        indices: SSAValue | Operation,
        updates: SSAValue | Operation,
        *,
        axis: int = 0,
        reduction: str = "none",
    ):
        value = SSAValue.get(x)
        super().__init__(
            [value, indices, updates],
            {
                "axis": integer(normalize_axis(axis, len(shape_of(value)))),
                "reduction": ScatterReductionAttr(ScatterReduction(reduction)),
            },
        )

    def check(self, x: Sequence[int], indices: Sequence[int], updates: Sequence[int]) -> bool:
        """Whether indices and updates have equal shapes, within those of x in all axes but
        `axis`."""
        axis = self.axis.value.data
        if len(x) != len(indices) or indices != updates or not 0 <= axis < len(x):
            return False
        return all(p <= n for d, (n, p) in enumerate(zip(x, indices, strict=True)) if d != axis)

    def compute_all(self, x: Array, indices: Array, updates: Array) -> Sequence[Array]:
        """Evaluate the op with numpy."""
        axis, result = self.axis.value.data, np.array(x)
        grid: Array = np.indices(indices.shape)
        places = [grid[d] for d in range(indices.ndim)]
        own = np.where(indices < 0, indices + x.shape[axis], indices).astype(np.int64)
        inside = (own >= 0) & (own < x.shape[axis])
        places[axis] = own
        self.assign(result, tuple(place[inside] for place in places), updates[inside])
        return (result,)

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Write loops over independent lines along the axis, with sequential updates in each."""
        x, indices, updates, result = buffers
        axis = self.axis.value.data
        self.fill(k, x, result)
        beside = [extent for d, extent in enumerate(indices.shape) if d != axis]
        with (
            k.loops(beside, parallel=True) as line,
            k.loop(indices.shape[axis]) as step,
        ):
            at = [*line[:axis], step, *line[axis:]]
            place = _wrapped(k, indices[at], x.shape[axis])
            with k.when((place >= 0) & (place < x.shape[axis])):
                self.update(k, result, [*line[:axis], place, *line[axis:]], updates[at])


@irdl_op_definition
class ScatterNdOp(ScatterOp):
    """Write slices of the updates at index vectors, which are the last axis of the indices and
    index the leading axes of x."""

    name = "graph.scatter_nd"

    def __init__(
        self,
        x: SSAValue | Operation,
        indices: SSAValue | Operation,
        updates: SSAValue | Operation,
        *,
        reduction: str = "none",
    ):
        kind = ScatterReductionAttr(ScatterReduction(reduction))
        super().__init__([x, indices, updates], {"reduction": kind})

    def check(self, x: Sequence[int], indices: Sequence[int], updates: Sequence[int]) -> bool:
        """Whether the updates have the indices' leading axes, then those of x that are not
        indexed."""
        if not indices or indices[-1] > len(x):
            return False
        return tuple(updates) == (*indices[:-1], *x[indices[-1] :])

    def compute_all(self, x: Array, indices: Array, updates: Array) -> Sequence[Array]:
        """Evaluate the op with numpy."""
        result, depth = np.array(x), indices.shape[-1]
        rows = indices.reshape(math.prod(indices.shape[:-1]), depth).astype(np.int64)
        rows = np.where(rows < 0, rows + np.array(x.shape[:depth], np.int64), rows)
        slices = updates.reshape(len(rows), *x.shape[depth:])
        inside = ((rows >= 0) & (rows < x.shape[:depth])).all(axis=1)
        if depth:
            self.assign(result, tuple(rows[inside].T), slices[inside])
        else:
            for row in slices:
                self.assign(result, (), row)
        return (result,)

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Write a loop that applies updates sequentially, because indices may repeat."""
        x, indices, updates, result = buffers
        depth = indices.shape[-1]
        self.fill(k, x, result)
        with k.loops(indices.shape[:-1]) as row:
            extents = x.shape[:depth]
            places = [_wrapped(k, indices[[*row, d]], extent) for d, extent in enumerate(extents)]
            inside = k.scalar(1, INDEX).equals(1)
            for place, extent in zip(places, extents, strict=True):
                inside = inside & (place >= 0) & (place < extent)
            with k.when(inside), k.loops(x.shape[depth:]) as rest:
                self.update(k, result, [*places, *rest], updates[[*row, *rest]])
