"""Which dimensions of a convolution have taps that mostly read pads."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects.builtin import f32

from tcopt.dialects.graph.conv import ConvOp
from tcopt.dialects.graph.types import element_type, is_float, shape_of
from tcopt.dialects.graph.windows import Window
from tcopt.dialects.intrinsics import find_dot
from tcopt.support.remarks import remark

MOST_SEEN = 0.85
"""The part of a dimension's taps that read data, up to which it pays to ask each time."""


def skipped_dimensions(op: ConvOp, capabilities: Collection[str]) -> list[int]:
    """The spatial dimensions in which taps that are outside of the data are left out.

    The last one of several places is not among them: its places are computed side by side, and
    some of them see data where others do not.
    """
    x, places, window = element_type(op.x), op.shape[2:], op.window
    multiplied = find_dot(capabilities, (x, x), f32) is not None
    if op.pad_value.value.data or not is_float(x) or multiplied:
        # Dot products take whole groups of terms, as those of integers do.
        return []
    last = max((d for d, n in enumerate(places) if n > 1), default=len(places) - 1)
    seen = parts_seen(window, shape_of(op.x)[2:], places)
    found = [d for d, part in enumerate(seen) if d != last and part <= MOST_SEEN]
    if found:
        texts = ", ".join(f"{seen[d]:.0%} of dimension {d}" for d in found)
        remark("convert-layout", op, f"taps see data in {texts}, others are skipped")
    return found


def parts_seen(window: Window, extents: tuple[int, ...], places: tuple[int, ...]) -> list[float]:
    """For each dimension, the part of all pairs of a place and a tap that read data."""
    parts: list[float] = []
    rows = zip(
        extents, places, window.kernel, window.strides, window.dilations, window.low, strict=True
    )
    for extent, count, kernel, stride, dilation, low in rows:
        inside = sum(
            0 <= place * stride + tap * dilation - low < extent
            for place in range(count)
            for tap in range(kernel)
        )
        parts.append(inside / (count * kernel))
    return parts
