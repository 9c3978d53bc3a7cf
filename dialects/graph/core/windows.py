"""Sliding windows: the strides, pads and dilations of convolution and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import Ints, ints, values_of
from tcopt.dialects.graph.core.types import Array, as_extents
from tcopt.support.arithmetic.sizes import Extent, ceildiv, maximum

MOST_WRITTEN_TAPS = 256
"""Maximum number of (output position, tap) pairs along a row that may be unrolled, when taps on
padding are skipped in a row of outputs computed in one tile."""


@dataclass(frozen=True)
class Window:
    """Sliding window over N spatial dimensions; every field has N entries."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dilations: tuple[int, ...]

    @staticmethod
    def of(
        kernel: Sequence[int],
        strides: Ints | None,
        pads: Ints | None,
        dilations: Ints | None,
        *,
        crops: bool = False,
    ) -> Window:
        """Build a window from attributes or their defaults; VerifyException if they are invalid.

        With `crops`, pads may be negative: windows then start inside the data.
        """
        rank, least = len(kernel), None if crops else 0
        window = Window(
            tuple(kernel),
            _entries("strides", strides, rank, default=1, least=1),
            _entries("pads", pads, 2 * rank, default=0, least=least)[:rank],
            _entries("pads", pads, 2 * rank, default=0, least=least)[rank:],
            _entries("dilations", dilations, rank, default=1, least=1),
        )
        if any(extent < 1 for extent in kernel):
            raise VerifyException(f"kernel {list(kernel)} has an extent below 1")
        return window

    @property
    def span(self) -> tuple[int, ...]:
        """Extents of the dilated kernel."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def seeing_data(self, extents: Sequence[Extent], output: Sequence[Extent]) -> list[range]:
        """Return for each dimension the range from the first to the last tap that reads data at
        some output position; empty if all taps read only padding, as dilated ones may. Every tap
        may read data of an extent that has a range."""
        found: list[range] = []
        rows = zip(
            extents, output, self.kernel, self.strides, self.dilations, self.low, strict=True
        )
        for extent, count, kernel, stride, dilation, low in rows:
            if not isinstance(extent, int) or not isinstance(count, int):
                found.append(range(kernel))
                continue
            seen = [
                tap
                for tap in range(kernel)
                if positions_inside(tap * dilation - low, stride, count, extent)
            ]
            found.append(range(seen[0], seen[-1] + 1) if seen else range(0))
        return found

    @property
    def square(self) -> tuple[int, int] | None:
        """Taps and stride of a 2-D window with equal extents, equal strides and no dilation; else
        None."""
        alike = len(set(self.kernel)) == len(set(self.strides)) == 1
        plain = len(self.kernel) == 2 and set(self.dilations) == {1}
        return (self.kernel[0], self.strides[0]) if alike and plain else None

    @property
    def is_padded(self) -> bool:
        """Whether any side is padded."""
        return any(pad > 0 for pad in (*self.low, *self.high))

    @property
    def is_pointwise(self) -> bool:
        """Whether the window is a single element."""
        return all(extent == 1 for extent in self.kernel)

    def border(
        self, extents: Sequence[int], output: Sequence[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return how far windows up to position `output` extend before and after the data."""
        rows = zip(extents, output, self.low, self.strides, self.span, strict=True)
        high = [
            (count - 1) * stride + span - low - extent for extent, count, low, stride, span in rows
        ]
        after = as_extents(maximum(0, n) for n in high)
        return tuple(max(0, low) for low in self.low), tuple(after)

    def pads_inside(
        self,
        low: Sequence[int],
        high: Sequence[int],
        extents: Sequence[int],
        output: Sequence[int],
    ) -> list[int]:
        """Return the remaining pads on data already extended by `low` and `high` on each side.

        Pads at the end that no window reaches are omitted.
        """
        before = [own - there for own, there in zip(self.low, low, strict=True)]
        reach = self.border(extents, output)[1]
        return before + [
            min(own, used) - there for own, used, there in zip(self.high, reach, high, strict=True)
        ]

    def output(self, extents: Sequence[int], *, ceil: bool = False) -> tuple[int, ...]:
        """Return the number of window positions in each dimension; VerifyException if none fits.

        With `ceil`, a last partial window counts if it starts inside the input or the leading pad,
        as in ONNX.
        """
        result: list[Extent] = []
        rows = zip(extents, self.span, self.strides, self.low, self.high, strict=True)
        for extent, span, stride, low, high in rows:
            room = extent + low + high - span
            if room < 0:
                raise VerifyException(
                    f"a window of extent {span} does not fit into {extent} + {low} + {high}"
                )
            count: Extent = room // stride + 1
            if ceil and high + stride <= span:
                # The last window begins inside for any extent.
                count = ceildiv(room, stride) + 1
            elif ceil and room % stride and count * stride < extent + low:
                count += 1
            result.append(count)
        return tuple(as_extents(result))

    def padded(self, extents: Sequence[int], output: Sequence[int]) -> tuple[int, ...]:
        """Return padded extents that contain all windows up to position `output`."""
        return tuple(
            max(extent + low + high, (count - 1) * stride + span)
            for extent, low, high, count, stride, span in zip(
                extents, self.low, self.high, output, self.strides, self.span, strict=True
            )
        )


def positions_inside(first: int, step: int, count: int, extent: int) -> range:
    """Return the positions `i` below `count` for which `first + i * step` is in [0, extent); `step`
    must be positive."""
    low, high = -(first // step), -((first - extent) // step)
    return range(max(0, low), max(0, low, min(count, high)))


def _entries(
    name: str, attr: Ints | None, count: int, default: int, least: int | None
) -> tuple[int, ...]:
    values = values_of(attr)
    if values is None:
        return (default,) * count
    if len(values) != count:
        raise VerifyException(f"{name} has {len(values)} entries, expected {count}")
    if least is not None and any(value < least for value in values):
        raise VerifyException(f"{name} {list(values)} has an entry below {least}")
    return values


def window_properties(
    strides: Sequence[int] | None,
    pads: Sequence[int] | None,
    dilations: Sequence[int] | None,
) -> dict[str, Attribute | None]:
    """Return the properties of a window, omitting those that equal the default."""
    return {
        "strides": ints(strides) if strides is not None and set(strides) - {1} else None,
        "pads": ints(pads) if pads is not None and any(pads) else None,
        "dilations": ints(dilations) if dilations is not None and set(dilations) - {1} else None,
    }


def view_windows(x: Array, window: Window, output: Sequence[int], fill: float | int) -> Array:
    """Return all windows of x [N, C, spatial...] as a view [N, C, output..., kernel...].

    Args:
        x: the data; dimensions after the second are spatial.
        window: the window; its pads, and the rest of partial windows, are filled.
        output: number of window positions in each spatial dimension.
        fill: value of elements outside x.
    """
    extents = x.shape[2:]
    padded = window.padded(extents, output)
    x = x[(..., *(slice(max(0, -low), None) for low in window.low))]
    widths = [(0, 0), (0, 0)] + [
        (max(low, 0), max(total - extent - low, 0))
        for low, total, extent in zip(window.low, padded, extents, strict=True)
    ]
    if any(map(any, widths)):
        x = np.pad(x, widths, constant_values=fill)
    rank = len(extents)
    axes = tuple(range(2, 2 + rank))
    windows = np.lib.stride_tricks.sliding_window_view(x, window.span, axes)
    places = tuple(
        slice(0, (count - 1) * stride + 1, stride)
        for count, stride in zip(output, window.strides, strict=True)
    )
    taps = tuple(slice(None, None, dilation) for dilation in window.dilations)
    return windows[(slice(None), slice(None), *places, *taps)]
