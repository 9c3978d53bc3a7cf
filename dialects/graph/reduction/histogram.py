"""Histogram of the elements of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, f32, i32
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import Int, integer
from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.dialects.graph.core.types import AnyTensor, Array, element_type, shape_of, tensor
from tcopt.dialects.loop.writer import Buffer, KernelWriter
from tcopt.dialects.loop.writer_scalar import INDEX

_MOST_BINS = 1 << 16


@irdl_op_definition
class HistogramOp(OpaqueOp):
    """Number of elements of `x` in each of `bins` equal parts of the range `low` to `high`.

    Elements outside the range count in the nearest bin, nan in the first one. If the range is
    empty, all elements count in the first bin.
    """

    name = "graph.histogram"

    x = operand_def(TensorType)
    low = operand_def(TensorType)
    high = operand_def(TensorType)
    bins = prop_def(Int)
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        low: SSAValue | Operation,
        high: SSAValue | Operation,
        *,
        bins: int,
    ):
        super().__init__([x, low, high], {"bins": integer(bins)})

    def infer(self) -> Sequence[AnyTensor]:
        """Return one count per bin."""
        for operand in self.operands:
            if element_type(operand) != f32:
                raise VerifyException(f"expects f32, got {operand.type}")
        if shape_of(self.low) or shape_of(self.high):
            raise VerifyException("the range should be two scalars")
        bins = self.bins.value.data
        if not 1 <= bins <= _MOST_BINS:
            raise VerifyException(f"bins should be 1 to {_MOST_BINS}, got {bins}")
        return (tensor((bins,), i32),)

    def compute_all(self, x: Array, low: Array, high: Array) -> Sequence[Array]:
        """Evaluate with numpy, with the same rounding as the kernel."""
        bins = self.bins.value.data
        with np.errstate(all="ignore"):
            factor = np.float32(bins) / (high - low)
            place = (x - low) * factor
            place = np.where(place >= 0, np.minimum(place, np.float32(bins - 1)), 0)
        counts = np.bincount(place.astype(np.int64).ravel(), minlength=bins)
        return (counts.astype(np.int32),)

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Write a sequential loop, because several elements may increment one bin."""
        x, low, high, result = buffers
        bins = self.bins.value.data
        with k.loop(bins) as part:
            result[part] = 0
        span = high[()] - low[()]
        factor, first = k.scalar(bins, f32) / span, low[()]
        with k.loops(x.shape) as at:
            place = (x[at] - first) * factor
            # The comparison maps nan to 0; converting nan to an index would be undefined.
            place = k.select(place >= 0, place, 0, f32).minimum(bins - 1)
            where = k.limited(place.cast(i32).cast(INDEX), bins)
            result[where] = result[where] + 1
