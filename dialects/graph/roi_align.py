"""Regions of interest pooled at exact, not rounded, places."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType, UnitAttr, f32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.attributes import Float, Int, Ints, flag, integer, ints, real
from tcopt.dialects.graph.opaque import OpaqueOp
from tcopt.dialects.graph.types import (
    AnyTensor,
    Array,
    element_type,
    is_float,
    is_half,
    shape_of,
    tensor,
)
from tcopt.dialects.loop.writer import INDEX, Buffer, KernelWriter, Scalar


@irdl_op_definition
class RoiAlignOp(OpaqueOp):
    """Each of regions [R, 4] of x [N, C, H, W], divided into `size` bins: [R, C, size...].

    A region (left, top, right, bottom) of image batch[r] is scaled by `scale` to x's elements. A
    bin is the mean of bilinear samples, `samples` along each side, or if that is 0 one for each
    element under it; with `maximum` the greatest of their weighted elements, as ONNX has it.
    With `half_pixel`, elements lie at the centres of their areas; without it, regions are at
    least one element wide and high.

    After He et al., Mask R-CNN (2017), section 3.
    """

    name = "graph.roi_align"

    x = operand_def(TensorType)
    boxes = operand_def(TensorType)
    batch = operand_def(TensorType)
    size = prop_def(Ints)
    samples = prop_def(Int, default_value=integer(0))
    scale = prop_def(Float, default_value=real(1.0))
    maximum = opt_prop_def(UnitAttr)
    half_pixel = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        regions: SSAValue | Operation,
        batch: SSAValue | Operation,
        *,
        size: Sequence[int],
        samples: int = 0,
        scale: float = 1.0,
        maximum: bool = False,
        half_pixel: bool = False,
    ):
        super().__init__(
            [x, regions, batch],
            {
                "size": ints(size),
                "samples": integer(samples),
                "scale": real(scale),
                "maximum": flag(maximum),
                "half_pixel": flag(half_pixel),
            },
        )

    def infer(self) -> Sequence[AnyTensor]:
        """[R, C, size...]."""
        shape, regions, size = shape_of(self.x), shape_of(self.boxes), self.size.get_values()
        if len(shape) != 4 or len(regions) != 2 or regions[1] != 4:
            raise VerifyException(f"{self.boxes.type} holds no regions of {self.x.type}")
        if shape_of(self.batch) != regions[:1]:
            raise VerifyException(f"{self.batch.type} does not hold {regions[0]} image numbers")
        if not isinstance(element_type(self.batch), IntegerType):
            raise VerifyException(f"image numbers are {self.batch.type}, not integers")
        elements = {element_type(self.x), element_type(self.boxes)}
        if len(elements) > 1 or not is_float(element_type(self.x)):
            raise VerifyException(f"{self.x.type} and {self.boxes.type} should be floats alike")
        if len(size) != 2 or min(size) < 1 or self.samples.value.data < 0:
            raise VerifyException(f"a size of {list(size)} is no grid of bins")
        return (tensor((regions[0], shape[1], *size), element_type(self.x)),)

    def work(self) -> int:
        """Four elements for each sample."""
        return super().work() * 4 * max(self.samples.value.data, 2) ** 2

    def compute_all(self, x: Array, regions: Array, batch: Array) -> Sequence[Array]:
        """The value by numpy."""
        result = np.zeros(self.shape, np.float64)
        extents, size = x.shape[2:], self.size.get_values()
        for r, (left, top, right, bottom) in enumerate(np.asarray(regions, np.float64)):
            down = self._numpy_samples(top, bottom, extents[0], size[0])
            across = self._numpy_samples(left, right, extents[1], size[1])
            image = np.asarray(x[int(batch[r])], np.float64)
            for i, j in itertools.product(range(size[0]), range(size[1])):
                # [samples, samples, 2, 2] places and weights of the elements around a sample.
                rows, row_weights = down[i]
                columns, column_weights = across[j]
                values: Array = image[:, rows[:, None, :, None], columns[None, :, None, :]]
                values = values * row_weights[:, None, :, None] * column_weights[None, :, None, :]
                if not values.size:
                    continue
                if self.maximum is not None:
                    result[r, :, i, j] = values.max((1, 2, 3, 4))
                else:
                    result[r, :, i, j] = values.sum((3, 4)).mean((1, 2))
        return (result,)

    def _numpy_samples(
        self, low: float, high: float, extent: int, bins: int
    ) -> list[tuple[Array, Array]]:
        """For each bin the places [samples, 2] around its samples and their weights."""
        half, scale = 0.5 if self.half_pixel is not None else 0.0, self.scale.value.data
        start, length = low * scale - half, (high - low) * scale
        if self.half_pixel is None:
            length = max(length, 1.0)
        count = self.samples.value.data or max(math.ceil(length / bins), 0)
        result: list[tuple[Array, Array]] = []
        for b in range(bins):
            at = start + length / bins * (b + (np.arange(count) + 0.5) / max(count, 1))
            inside = (at >= -1.0) & (at <= extent)
            at = np.clip(at, 0.0, extent - 1)
            base = at.astype(np.int64)
            places = np.stack([base, np.minimum(base + 1, extent - 1)], axis=1)
            weights = np.stack([1 - (at - base), at - base], axis=1)
            result.append((places, weights * inside[:, None]))
        return result

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Regions are independent."""
        x, regions, batch, result = buffers
        element, size = element_type(self.x), self.size.get_values()
        wide = f32 if is_half(element) else element
        with k.loop(regions.shape[0], parallel=True) as r, k.loop(x.shape[1]) as c:
            image = batch[r].cast(INDEX)
            corners = [regions[r, d].cast(wide) for d in range(4)]
            sides = [self._side(k, corners[1 - d], corners[3 - d], size[d]) for d in range(2)]
            counts = [count for _, _, count in sides]
            area = counts[0].cast(i64).cast(wide) * counts[1].cast(i64).cast(wide)
            with k.loops(size) as place:
                total, any_yet = k.variable(wide, 0), k.variable(INDEX, 0)
                with k.loops(counts) as sample:
                    value = self._interpolated(k, x, (image, c), sides, place, sample)
                    if self.maximum is None:
                        total.set(total.get() + value)
                    else:
                        with k.when(any_yet.get().equals(0) | (value > total.get())):
                            total.set(value)
                        any_yet.set(1)
                if self.maximum is None:
                    with k.when(area > 0):
                        total.set(total.get() / area)
                result[[r, c, *place]] = total.get().cast(element)

    def _side(
        self, k: KernelWriter, low: Scalar, high: Scalar, bins: int
    ) -> tuple[Scalar, Scalar, Scalar]:
        """Where a region begins along a dimension, how long a bin is, and its samples."""
        half, scale = 0.5 if self.half_pixel is not None else 0.0, self.scale.value.data
        length = (high - low) * scale
        if self.half_pixel is None:
            length = length.maximum(1.0)
        bin_length = length / float(bins)
        if self.samples.value.data:
            count = k.scalar(self.samples.value.data, INDEX)
        else:
            count = bin_length.ceil().cast(i64).cast(INDEX)
        return low * scale - half, bin_length, count

    def _interpolated(
        self,
        k: KernelWriter,
        x: Buffer,
        image: tuple[Scalar, Scalar],
        sides: Sequence[tuple[Scalar, Scalar, Scalar]],
        place: Sequence[Scalar],
        sample: Sequence[Scalar],
    ) -> Scalar:
        """The value at one sample; outside of the image zero."""
        wide = sides[0][0].dtype
        value, taps = k.variable(wide, 0), list[tuple[Scalar, Scalar, Scalar]]()
        inside = k.scalar(0, INDEX).equals(0)
        for d, (start, length, count) in enumerate(sides):
            extent = x.shape[2 + d]
            part = (sample[d].cast(i64).cast(wide) + 0.5) / count.cast(i64).cast(wide)
            at = start + length * (place[d].cast(i64).cast(wide) + part)
            inside = inside & (at >= -1.0) & (at <= float(extent))
            at = at.maximum(0.0).minimum(float(extent - 1))
            base = at.cast(i64)
            following = (base + 1).minimum(extent - 1)
            taps.append((base.cast(INDEX), following.cast(INDEX), at - base.cast(wide)))
        with k.when(inside):
            (top, bottom, down), (left, right, across) = taps
            n, c = image
            taps_around: list[Scalar] = []
            for row, up in ((top, 1.0 - down), (bottom, down)):
                for column, aside in ((left, 1.0 - across), (right, across)):
                    taps_around.append(x[n, c, row, column].cast(wide) * up * aside)
            first, *others = taps_around
            for other in others:
                first = first + other if self.maximum is None else first.maximum(other)
            value.set(first)
        return value.get()
