"""Overlapping blocks summed into an image: the transposed form of taking windows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.attributes import Ints, ints
from tcopt.dialects.graph.opaque import OpaqueOp
from tcopt.dialects.graph.types import (
    AnyTensor,
    Array,
    element_type,
    is_half,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.windows import Window, window_properties
from tcopt.dialects.loop.writer import INDEX, Buffer, KernelWriter, Scalar


@irdl_op_definition
class Col2ImOp(OpaqueOp):
    """Columns [N, C * block, positions] summed into images [N, C, image...].

    Column element (c, tap, position) is added to the image element that the window of that
    position has under the tap; what falls on pads is dropped.
    """

    name = "graph.col2im"

    x = operand_def(TensorType)
    image = prop_def(Ints)
    block = prop_def(Ints)
    strides = opt_prop_def(Ints)
    pads = opt_prop_def(Ints)
    dilations = opt_prop_def(Ints)
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        *,
        image: Sequence[int],
        block: Sequence[int],
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
    ):
        window = window_properties(strides, pads, dilations)
        super().__init__([x], {"image": ints(image), "block": ints(block), **window})

    @property
    def window(self) -> Window:
        """The window that moves over the image."""
        return Window.of(self.block.get_values(), self.strides, self.pads, self.dilations)

    def infer(self) -> Sequence[AnyTensor]:
        """[N, C, image...]."""
        shape, image = shape_of(self.x), self.image.get_values()
        if len(shape) != 3 or len(image) != len(self.block.get_values()):
            raise VerifyException(f"{self.x.type} does not hold columns of images")
        window = self.window
        taps, positions = math.prod(window.kernel), math.prod(window.output(image))
        if shape[1] % taps or shape[2] != positions:
            raise VerifyException(
                f"{self.x.type} should hold a multiple of {taps} rows of {positions} columns"
            )
        return (tensor((shape[0], shape[1] // taps, *image), element_type(self.x)),)

    def compute_all(self, x: Array) -> Sequence[Array]:
        """The value by numpy."""
        window, image = self.window, self.image.get_values()
        output = window.output(image)
        blocks = x.reshape(x.shape[0], -1, *window.kernel, *output)
        padded = [n + a + b for n, a, b in zip(image, window.low, window.high, strict=True)]
        result = np.zeros((*blocks.shape[:2], *padded), x.dtype)
        for tap in np.ndindex(*window.kernel):
            rows = zip(tap, window.dilations, window.strides, output, strict=True)
            place = tuple(slice(t * d, t * d + s * (n - 1) + 1, s) for t, d, s, n in rows)
            result[(..., *place)] += blocks[(slice(None), slice(None), *tap)]
        inner = tuple(slice(a, a + n) for a, n in zip(window.low, image, strict=True))
        return (result[(..., *inner)],)

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Channels are independent; 16-bit floats are summed in f32."""
        x, result = buffers
        window, image = self.window, self.image.get_values()
        output, element = window.output(image), element_type(self.x)
        wide = f32 if is_half(element) else element
        taps = math.prod(window.kernel)
        with k.loops(result.shape[:2], parallel=True) as (n, c):
            total = k.workspace(image, wide)
            with k.loops(image) as place:
                total[place] = 0
            with k.loops(window.kernel) as tap, k.loops(output) as position:
                row = c * taps + _flat(k, tap, window.kernel)
                column = _flat(k, position, output)
                place: list[Scalar] = []
                inside = k.scalar(0, INDEX).equals(0)
                for d, extent in enumerate(image):
                    at = position[d] * window.strides[d] + tap[d] * window.dilations[d]
                    place.append(at - window.low[d])
                    inside = inside & (place[-1] >= 0) & (place[-1] < extent)
                with k.when(inside):
                    total[place] = total[place] + x[n, row, column].cast(wide)
            with k.loops(image) as place:
                result[[n, c, *place]] = total[place].cast(element)


def _flat(k: KernelWriter, place: Sequence[Scalar], extents: Sequence[int]) -> Scalar:
    """The number of a place among all, row by row."""
    number = k.scalar(0, INDEX)
    for index, extent in zip(place, extents, strict=True):
        number = number * extent + index
    return number
