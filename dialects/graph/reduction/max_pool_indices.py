"""Max pooling that also returns the indices of the maxima."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import Ints, flag, ints
from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    lowest,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.core.windows import Window, view_windows, window_properties
from tcopt.dialects.loop.writer import Buffer, KernelWriter
from tcopt.dialects.loop.writer_scalar import INDEX


@irdl_op_definition
class MaxPoolIndicesOp(OpaqueOp):
    """Maximum of each window of x [N, C, spatial...], and its index in all of x.

    An index is the flat index of the element in row-major order; with `column_major` the first
    spatial dimension is the fastest. Of equal maxima, the first is chosen. `ceil_mode` includes
    partial windows at the end.
    """

    name = "graph.max_pool_indices"

    x = operand_def(TensorType)
    kernel = prop_def(Ints)
    strides = opt_prop_def(Ints)
    pads = opt_prop_def(Ints)
    dilations = opt_prop_def(Ints)
    column_major = opt_prop_def(UnitAttr)
    ceil_mode = opt_prop_def(UnitAttr)
    values = result_def(TensorType)
    indices = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        *,
        kernel: Sequence[int],
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        ceil_mode: bool = False,
        column_major: bool = False,
    ):
        properties = {
            "kernel": ints(kernel),
            **window_properties(strides, pads, dilations),
            "column_major": flag(column_major),
            "ceil_mode": flag(ceil_mode),
        }
        super().__init__([x], properties)

    @property
    def window(self) -> Window:
        """Window of the pooling."""
        return Window.of(self.kernel.get_values(), self.strides, self.pads, self.dilations)

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [N, C, positions...] for values and for indices."""
        shape, kernel = shape_of(self.x), self.kernel.get_values()
        if len(shape) < 3 or len(kernel) != len(shape) - 2:
            raise VerifyException(f"a kernel of rank {len(kernel)} does not pool {self.x.type}")
        output = self.window.output(shape[2:], ceil=self.ceil_mode is not None)
        extents = (*shape[:2], *output)
        return tensor(extents, element_type(self.x)), tensor(extents, i64)

    def _steps(self) -> list[int]:
        """Return the stride of the flat index along each spatial dimension."""
        spatial = shape_of(self.x)[2:]
        order = range(len(spatial)) if self.column_major is not None else range(len(spatial))[::-1]
        steps, step = [0] * len(spatial), 1
        for d in order:
            steps[d], step = step, step * spatial[d]
        return steps

    def compute_all(self, x: Array) -> Sequence[Array]:
        """Evaluate the op with numpy."""
        window, output = self.window, self.shape[2:]
        count = math.prod(x.shape[2:])
        order = "F" if self.column_major is not None else "C"
        numbers: Array = np.arange(count).reshape(x.shape[2:], order=order)
        images: Array = np.arange(math.prod(x.shape[:2]))
        numbers = numbers + images.reshape(*x.shape[:2], *[1] * (x.ndim - 2)) * count
        flat = (*self.shape, -1)
        values = view_windows(x, window, output, lowest(element_type(self.x))).reshape(flat)
        indices = view_windows(numbers, window, output, -1).reshape(flat)
        # A pad is never chosen if the window contains an element.
        best = np.where(indices >= 0, values, lowest(element_type(self.x)))
        chosen = np.argmax((best == best.max(-1, keepdims=True)) & (indices >= 0), axis=-1)
        picked = chosen[..., None]
        return (
            np.take_along_axis(values, picked, -1)[..., 0],
            np.take_along_axis(indices, picked, -1)[..., 0],
        )

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Write a loop over independent windows."""
        x, values, indices = buffers
        window, spatial, steps = self.window, x.shape[2:], self._steps()
        element = element_type(self.x)
        channels, size = x.shape[1], math.prod(spatial)
        with k.loops(values.shape, parallel=True) as at:
            n, c, *position = at
            best = k.variable(element, lowest(element))
            place = k.variable(i64, -1)
            with k.loops(window.kernel) as tap:
                taken = [
                    position[d] * window.strides[d] + tap[d] * window.dilations[d] - window.low[d]
                    for d in range(len(spatial))
                ]
                inside = k.scalar(0, INDEX).equals(0)
                number = (n * channels + c) * size
                for index, extent, step in zip(taken, spatial, steps, strict=True):
                    inside = inside & (index >= 0) & (index < extent)
                    number = number + index * step
                with k.when(inside):
                    value = x[[n, c, *taken]]
                    with k.when((place.get() < 0) | (value > best.get())):
                        best.set(value)
                        place.set(number.cast(i64))
            values[at] = best.get()
            indices[at] = place.get()
