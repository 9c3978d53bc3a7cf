"""Sum of overlapping blocks into an image: the transpose of extracting windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import FusionKind, Ints, ints
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.stages import image_compute, narrow, tap_axes, widen
from tcopt.dialects.graph.core.types import AnyTensor, Array, element_type, shape_of, tensor
from tcopt.dialects.graph.core.windows import Window, window_properties
from tcopt.dialects.te import api as te


@irdl_op_definition
class Col2ImOp(GraphOp):
    """Columns [N, C, block..., positions...] summed into images [N, C, image...].

    The element of a column for a tap of the block is added to the image element that this tap reads
    at the column's window position; elements in pads are dropped. 16-bit floats are summed in f32.
    """

    name = "graph.col2im"
    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE

    x = operand_def(TensorType)
    image = prop_def(Ints)
    strides = opt_prop_def(Ints)
    pads = opt_prop_def(Ints)
    dilations = opt_prop_def(Ints)
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        *,
        image: Sequence[int],
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
    ):
        window = window_properties(strides, pads, dilations)
        super().__init__([x], {"image": ints(image), **window})

    @property
    def window(self) -> Window:
        """The window that moves over the image."""
        kernel = shape_of(self.x)[2 : 2 + len(self.image)]
        return Window.of(kernel, self.strides, self.pads, self.dilations)

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [N, C, image...]."""
        shape, image = shape_of(self.x), self.image.get_values()
        if len(shape) != 2 + 2 * len(image):
            raise VerifyException(f"{self.x.type} does not hold columns of images")
        positions = tuple(self.window.output(image))
        if shape[2 + len(image) :] != positions:
            raise VerifyException(f"{self.x.type} should hold columns of {positions} positions")
        return (tensor((*shape[:2], *image), element_type(self.x)),)

    def work(self) -> int:
        """Return the operation count: one operation for each element that is added."""
        return math.prod(shape_of(self.x))

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        window, image = self.window, self.image.get_values()
        output = window.output(image)
        padded = [n + a + b for n, a, b in zip(image, window.low, window.high, strict=True)]
        result = np.zeros((*x.shape[:2], *padded), x.dtype)
        for tap in np.ndindex(*window.kernel):
            rows = zip(tap, window.dilations, window.strides, output, strict=True)
            place = tuple(slice(t * d, t * d + s * (n - 1) + 1, s) for t, d, s, n in rows)
            result[(..., *place)] += x[(slice(None), slice(None), *tap)]
        inner = tuple(slice(a, a + n) for a, n in zip(window.low, image, strict=True))
        return result[(..., *inner)]

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return a sum over taps for each phase of the strides, and a stage that interleaves them.

        An index of the padded image is stride * m + phase. The taps t with t * dilation = phase +
        stride * j contribute to it, from position m - j.
        """
        window, image = self.window, self.image.get_values()
        strides, dilations = window.strides, window.dilations
        # If taps are sparser than the indices of a phase, each index checks whether it has a tap.
        sparse = [s > 1 and d > 1 for s, d in zip(strides, dilations, strict=True)]
        rows = zip(window.kernel, window.span, strides, sparse, strict=True)
        counts = [-(-(span if thin else k) // s) for k, span, s, thin in rows]
        steps: list[Any] = tap_axes(counts) if math.prod(counts) > 1 else [0] * len(counts)
        wide = [place for place, stride in enumerate(strides) if stride > 1]
        phases = [strides[d] for d in wide]
        extents = [-(-n // stride) for n, stride in zip(image, strides, strict=True)]

        def sums(n: te.Axis, c: te.Axis, *axes: te.Axis) -> Any:
            phase = dict(zip(wide, axes, strict=False))
            taps: list[Any] = []
            positions: list[Any] = []
            meets: list[te.Expr] = []
            for d, (step, place) in enumerate(zip(steps, axes[len(wide) :], strict=True)):
                low, stride, dilation = window.low[d], strides[d], dilations[d]
                if stride == 1:
                    taps.append(step)
                    positions.append(place + low - step * dilation)
                    continue
                tap = (phase[d] + low) % stride + step * stride
                if sparse[d]:
                    meets.append((tap % dilation) == 0)
                    tap = tap // dilation
                taps.append(tap)
                positions.append(place + (phase[d] + low) // stride - step)
            value = widen(x.read((n, c, *taps, *positions), default=0))
            if meets:
                value = te.select(te.all(*meets), value, te.const(0, value.dtype))
            return te.sum(value, axis=steps) if math.prod(counts) > 1 else value

        def weave(n: te.Axis, c: te.Axis, *places: te.Axis) -> te.Expr:
            at = [place // s if s > 1 else place for place, s in zip(places, strides, strict=True)]
            return total[(n, c, *(places[d] % strides[d] for d in wide), *at)]

        total = image_compute((*x.shape[:2], *phases, *extents), sums, "sum")
        if wide:
            total = image_compute((*x.shape[:2], *image), weave, "weave")
        return narrow(total, self.type.element_type)
