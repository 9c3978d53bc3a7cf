"""Which dimensions of a convolution have taps that mostly read pads."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import f32

from tcopt.dialects.graph.types import element_type, is_float, shape_of
from tcopt.dialects.graph.windows import MOST_WRITTEN_TAPS, Window, positions_inside
from tcopt.dialects.intrinsics import find_dot
from tcopt.support.remarks import remark

if TYPE_CHECKING:
    from tcopt.dialects.graph.conv import ConvOp

MOST_SEEN = 0.85
"""The part of a dimension's taps that read data, up to which it pays to ask each time."""


def skipped_dimensions(op: ConvOp, capabilities: Collection[str]) -> list[int]:
    """The spatial dimensions in which taps that are outside of the data are left out.

    In the last one of several places these are computed side by side, and some of them see data
    where others do not: there each place has code of its own, so it must be narrow.
    """
    x, places, window = element_type(op.x), op.shape[2:], op.window
    multiplied = find_dot(capabilities, (x, x), f32) is not None
    if op.pad_value.value.data or not is_float(x) or multiplied:
        # Dot products take whole groups of terms, as those of integers do.
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
        remark("convert-layout", op, f"taps see data in {texts}, others are skipped")
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
