"""Pooling of regions of interest at exact, not rounded, coordinates (RoI Align)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType, UnitAttr, f32, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import Float, Int, Ints, flag, integer, ints, real
from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    is_float,
    is_half,
    shape_of,
    tensor,
)
from tcopt.dialects.loop.writer import Buffer, KernelWriter
from tcopt.dialects.loop.writer_scalar import INDEX, Scalar
from tcopt.support.arithmetic.sizes import Size

_MOST_SAMPLES = 1 << 30
"""Maximum number of samples of a bin along a side."""


@dataclass(frozen=True)
class _Side:
    """A region along one dimension: its start, the length of a bin, and the samples per bin."""

    start: Scalar
    length: Scalar
    count: Scalar

    def samples(self) -> Scalar:
        """Return the number of samples, in the type of coordinates."""
        return self.count.cast(i64).cast(self.start.dtype)


def _real(extent: int) -> float:
    """Return an extent as a number in the arithmetic of coordinates; a size adapts to it."""
    return extent if isinstance(extent, Size) else float(extent)


_Tap = tuple[Scalar, Scalar, Scalar]
"""Row, column and weight of an element next to a sample."""


@dataclass(frozen=True)
class _Image:
    """One of several images [N, H, W, C], read as another element type."""

    images: Buffer
    number: Scalar
    dtype: Attribute

    @property
    def shape(self) -> tuple[int, ...]:
        return self.images.shape[1:3]

    def around(self, taps: Sequence[_Tap], channel: Scalar) -> list[Scalar]:
        """Return the weighted elements of a channel."""
        return [
            self.images[self.number, row, column, channel].cast(self.dtype) * weight
            for row, column, weight in taps
        ]


@irdl_op_definition
class RoiAlignOp(OpaqueOp):
    """Pooled regions [R, 4] of x [N, H, W, C], each divided into `size` bins: [R, size..., C].

    Channels are last, so that sample positions are computed once for all of them.

    A region (left, top, right, bottom) of image batch[r] is scaled by `scale` to x's elements. A
    bin is the mean of bilinear samples: `samples` along each side, or if that is 0, one per element
    that it covers. With `maximum`, it is the maximum of the samples' weighted elements, as in ONNX.
    With `half_pixel`, coordinates of elements are the centres of their areas; without it, regions
    are at least one element wide and high.

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
        """Infer the result shape [R, size..., C]."""
        shape, regions, size = shape_of(self.x), shape_of(self.boxes), self.size.get_values()
        if len(shape) != 4 or len(regions) != 2 or regions[1] != 4:
            raise VerifyException(f"{self.boxes.type} does not hold regions of {self.x.type}")
        if shape_of(self.batch) != regions[:1]:
            raise VerifyException(f"{self.batch.type} does not hold {regions[0]} image indices")
        if not isinstance(element_type(self.batch), IntegerType):
            raise VerifyException(f"image indices must be integers, got {self.batch.type}")
        elements = {element_type(self.x), element_type(self.boxes)}
        if len(elements) > 1 or not is_float(element_type(self.x)):
            raise VerifyException(
                f"{self.x.type} and {self.boxes.type} should have the same float type"
            )
        if len(size) != 2 or min(size) < 1 or self.samples.value.data < 0:
            raise VerifyException(f"a size of {list(size)} is not a grid of bins")
        return (tensor((regions[0], *size, shape[3]), element_type(self.x)),)

    def work(self) -> int:
        """Return the operation count: four elements for each sample."""
        return super().work() * 4 * max(self.samples.value.data, 2) ** 2

    def compute_all(self, x: Array, regions: Array, batch: Array) -> Sequence[Array]:
        """Evaluate the op with numpy."""
        result = np.zeros(self.shape, np.float64)
        extents, size = x.shape[1:3], self.size.get_values()
        for r, (left, top, right, bottom) in enumerate(np.asarray(regions, np.float64)):
            down = self._numpy_samples(top, bottom, extents[0], size[0])
            across = self._numpy_samples(left, right, extents[1], size[1])
            image = np.asarray(x[int(np.clip(batch[r], 0, len(x) - 1))], np.float64)
            for i, j in itertools.product(range(size[0]), range(size[1])):
                # [samples, samples, 2, 2] indices and weights of the elements around a sample.
                rows, row_weights, height = down[i]
                columns, column_weights, width = across[j]
                values: Array = image[rows[:, None, :, None], columns[None, :, None, :]]
                weights = row_weights[:, None, :, None] * column_weights[None, :, None, :]
                values = values * weights[..., None]
                if self.maximum is None:
                    result[r, i, j] = values.sum((0, 1, 2, 3)) / max(height * width, 1)
                elif values.size:
                    # Skipped samples are zeros.
                    lowest = -np.inf if values[:, :, 0, 0, 0].size == height * width else 0.0
                    result[r, i, j] = values.max((0, 1, 2, 3), initial=lowest)
        return (result,)

    def _numpy_samples(
        self, low: float, high: float, extent: int, bins: int
    ) -> list[tuple[Array, Array, int]]:
        """Return for each bin the indices [samples, 2] of the elements around its samples, their
        weights, and the number of samples, including those that are skipped because they are far
        from the image."""
        half, scale = 0.5 if self.half_pixel is not None else 0.0, self.scale.value.data
        start, length = low * scale - half, (high - low) * scale
        if self.half_pixel is None:
            length = np.maximum(length, 1.0)
        with np.errstate(all="ignore"):
            adaptive = np.clip(np.nan_to_num(np.ceil(length / bins)), 0, _MOST_SAMPLES)
            count = self.samples.value.data or int(adaptive)
            result: list[tuple[Array, Array, int]] = []
            for b in range(bins):
                near = ((np.array([-1.0, extent]) - start) / (length / bins) - b) * count
                near = np.clip(np.nan_to_num(near, nan=0), 0, count) if count > 4096 else (0, count)
                numbers = np.arange(max(int(near[0]) - 2, 0), min(int(near[1]) + 2, count))
                at = start + length / bins * (b + (numbers + 0.5) / max(count, 1))
                inside = (at >= -1.0) & (at <= extent)
                at = np.clip(np.nan_to_num(at), 0.0, extent - 1)
                base = at.astype(np.int64)
                places = np.stack([base, np.minimum(base + 1, extent - 1)], axis=1)
                weights = np.stack([1 - (at - base), at - base], axis=1)
                result.append((places, weights * inside[:, None], count))
        return result

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Write a loop over independent regions."""
        x, regions, batch, result = buffers
        element, size = element_type(self.x), self.size.get_values()
        wide = f32 if is_half(element) else element
        with k.loop(regions.shape[0], parallel=True) as r:
            image = k.limited(batch[r].cast(INDEX), x.shape[0])
            corners = [regions[r, d].cast(wide) for d in range(4)]
            sides = [self._side(k, corners[1 - d], corners[3 - d], size[d]) for d in range(2)]
            area = sides[0].samples() * sides[1].samples()
            area = k.select(area > 0, area, 1, wide) if self.maximum is None else area
            totals = k.workspace((x.shape[3],), wide)
            with k.loops(size) as place:
                self._add_samples(k, _Image(x, image, wide), sides, place, totals)
                for parts in k.parts(x.shape[3]):
                    with parts as part, part.places() as (c, _):
                        total = totals[c] / area if self.maximum is None else totals[c]
                        result[[r, *place, c]] = total.cast(element)

    def _add_samples(
        self,
        k: KernelWriter,
        image: _Image,
        sides: Sequence[_Side],
        place: Sequence[Scalar],
        totals: Buffer,
    ) -> None:
        """Write the reduction of all channels of a bin: the sum or maximum of its samples."""
        for parts in k.parts(totals.shape[0]):
            with parts as part, part.places() as (c, _):
                totals[c] = 0
        spans = [self._near(k, side, place[d], image.shape[d]) for d, side in enumerate(sides)]
        any_yet = k.variable(INDEX, 0)
        for side, (_, count) in zip(sides, spans, strict=True):
            # Samples outside the image are zeros.
            with k.when(count < side.count):
                any_yet.set(1)
        with k.loops([count for _, count in spans]) as step:
            sample = [first + at for (first, _), at in zip(spans, step, strict=True)]
            inside, taps = self._taps(k, image, sides, place, sample)
            if self.maximum is None:
                with k.when(inside):
                    for parts in k.parts(totals.shape[0]):
                        with parts as part, part.places() as (c, _):
                            first, *others = image.around(taps, c)
                            for other in others:
                                first = first + other
                            totals[c] = totals[c] + first
                return
            is_first = any_yet.get().equals(0)
            for parts in k.parts(totals.shape[0]):
                with parts as part, part.places() as (c, _):
                    first, *others = image.around(taps, c)
                    for other in others:
                        first = first.maximum(other)
                    value = k.select(inside, first, 0, totals.dtype)
                    greater = is_first | (value > totals[c])
                    totals[c] = k.select(greater, value, totals[c], totals.dtype)
            any_yet.set(1)

    def _side(self, k: KernelWriter, low: Scalar, high: Scalar, bins: int) -> _Side:
        """Return a region along one dimension."""
        half, scale = 0.5 if self.half_pixel is not None else 0.0, self.scale.value.data
        length = (high - low) * scale
        if self.half_pixel is None:
            length = length.maximum(1.0)
        bin_length = length / float(bins)
        if self.samples.value.data:
            count = k.scalar(self.samples.value.data, INDEX)
        else:
            count = bin_length.ceil().clamp(0.0, float(_MOST_SAMPLES)).cast(i64).cast(INDEX)
        return _Side(low * scale - half, bin_length, count)

    def _near(
        self, k: KernelWriter, side: _Side, place: Scalar, extent: int
    ) -> tuple[Scalar, Scalar]:
        """Return the first sample of a bin that may be in the image, and their number.

        A region may have any size, but only a limited part of it is inside the image.
        """
        if self.samples.value.data:
            return k.scalar(0, INDEX), side.count
        count = side.samples()
        ends: list[Scalar] = []
        for edge, step in ((-1.0, -2.0), (_real(extent), 3.0)):
            bins = (k.scalar(edge, count.dtype) - side.start) / side.length
            at = (bins - place.cast(i64).cast(count.dtype)) * count
            # Upper bound of the rounding error.
            slack = (bins.maximum(bins * -1.0) + 1.0) * count * 2.0**-20
            at = at + slack + step if step > 0 else at - slack + step
            end = at.clamp(0.0, float(_MOST_SAMPLES)).cast(i64).cast(INDEX)
            ends.append(end.minimum(side.count))
        first, last = ends
        return first, (last - first).maximum(0).minimum(4 * extent + 64)

    def _taps(
        self,
        k: KernelWriter,
        image: _Image,
        sides: Sequence[_Side],
        place: Sequence[Scalar],
        sample: Sequence[Scalar],
    ) -> tuple[Scalar, list[_Tap]]:
        """Return whether a sample is inside the image, and row, column and weight of the elements
        around it."""
        wide = sides[0].start.dtype
        around: list[list[tuple[Scalar, Scalar]]] = []
        inside = k.scalar(0, INDEX).equals(0)
        for d, side in enumerate(sides):
            extent = image.shape[d]
            part = (sample[d].cast(i64).cast(wide) + 0.5) / side.samples()
            at = side.start + side.length * (place[d].cast(i64).cast(wide) + part)
            inside = inside & (at >= -1.0) & (at <= _real(extent))
            at = at.clamp(0.0, _real(extent - 1))
            base = at.cast(i64)
            following = (base + 1).minimum(extent - 1)
            rest = at - base.cast(wide)
            around.append([(base.cast(INDEX), 1.0 - rest), (following.cast(INDEX), rest)])
        return inside, [
            (k.limited(row, image.shape[0]), k.limited(column, image.shape[1]), up * aside)
            for row, up in around[0]
            for column, aside in around[1]
        ]
