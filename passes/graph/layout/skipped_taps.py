"""Selection of the dimensions of a convolution whose taps mostly read padding."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects.builtin import f32

from tcopt.dialects.graph.contraction.conv import ConvOp
from tcopt.dialects.graph.core.types import element_type, is_float, shape_of
from tcopt.dialects.graph.core.windows import MOST_WRITTEN_TAPS, Window, positions_inside
from tcopt.dialects.intrinsics import find_dot
from tcopt.support.arithmetic.sizes import is_fixed
from tcopt.support.remarks import remark

MOST_SEEN = 0.85
"""Maximum fraction of a dimension's taps reading data for which a check per tap pays off."""


def skipped_dimensions(op: ConvOp, capabilities: Collection[str]) -> list[int]:
    """Return the spatial dimensions in which taps outside the data are skipped.

    Positions along the last dimension with an extent above 1 are computed side by side in a tile,
    and may need different taps. That dimension must be narrow, because each of its positions is
    unrolled.
    """
    x, places, window = element_type(op.x), op.shape[2:], op.window
    if not is_fixed((*places, *shape_of(op.x)[2:])):
        return []
    multiplied = find_dot(capabilities, (x, x), f32) is not None
    if op.pad_value.value.data or not is_float(x) or multiplied:
        # Dot products need whole groups of terms, and so do those of integers.
        return []
    last = max((d for d, n in enumerate(places) if n > 1), default=len(places) - 1)
    seen = taps_seen(window, shape_of(op.x)[2:], places)
    parts = [n / (m * k) for n, m, k in zip(seen, places, window.kernel, strict=True)]
    found = [
        d
        for d, part in enumerate(parts)
        if part <= MOST_SEEN and (d != last or seen[d] <= MOST_WRITTEN_TAPS)
    ]
    if found:
        texts = ", ".join(f"{parts[d]:.0%} of dimension {d}" for d in found)
        remark("convert-layout", op, f"taps read data in {texts}, others are skipped")
    return found


def taps_seen(window: Window, extents: tuple[int, ...], places: tuple[int, ...]) -> list[int]:
    """For each dimension, the number of pairs of an output position and a tap that read data."""
    return [
        sum(
            len(positions_inside(tap * dilation - low, stride, count, extent))
            for tap in range(kernel)
        )
        for extent, count, kernel, stride, dilation, low in zip(
            extents,
            places,
            window.kernel,
            window.strides,
            window.dilations,
            window.low,
            strict=True,
        )
    ]
