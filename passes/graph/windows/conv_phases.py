"""Phases of a transposed convolution, each a convolution of its own, and their weights.

With q = index + pad, the element at q is the sum over m of x[q div s - m] * w[q mod s + s * m].
Elements with equal q mod s are a phase: a convolution by every s-th tap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.contraction.conv_transpose import ConvTransposeOp
from tcopt.dialects.graph.core.types import shape_of
from tcopt.dialects.graph.movement.pad import PadOp
from tcopt.dialects.graph.movement.shape import ReshapeOp, TransposeOp
from tcopt.dialects.graph.movement.slice import ConcatOp, SliceOp
from tcopt.support.arithmetic.sizes import is_fixed, upper_bound


@dataclass(frozen=True)
class Phases:
    """Decomposition of a transposed convolution into phases; one entry per spatial dimension.

    Attributes:
        strides: number of phases.
        starts: phase, q mod stride, of the first element of the result.
        taps: taps of a phase; if strides do not divide the kernel, it is padded with zeros.
        pads: pads of the data for the windows of all phases, beginnings first.
        places: number of elements of a phase.
    """

    strides: tuple[int, ...]
    starts: tuple[int, ...]
    taps: tuple[int, ...]
    pads: tuple[int, ...]
    places: tuple[int, ...]


def phases_of(op: ConvTransposeOp) -> Phases | None:
    """Return the phases of an op; None if extents differ, phases have no taps, or there are
    groups."""
    window = op.window
    if op.group_count != 1 or set(window.dilations) != {1} or 0 in op.shape:
        return None
    extents, output = shape_of(op.x)[2:], op.shape[2:]
    # The stride is irrelevant for an image of one element: each tap may be a phase.
    strides = [
        k if extent == 1 else s
        for k, s, extent in zip(window.kernel, window.strides, extents, strict=True)
    ]
    if any(k < stride for k, stride in zip(window.kernel, strides, strict=True)):
        return None
    if any(count % stride != 0 for count, stride in zip(output, strides, strict=True)):
        return None
    axes = [
        _axis(*row) for row in zip(extents, output, window.kernel, strides, window.low, strict=True)
    ]
    pads = (*(axis.low for axis in axes), *(axis.high for axis in axes))
    if not is_fixed(pads) or min(pads) < 0:
        return None
    return Phases(
        tuple(strides),
        tuple(axis.start for axis in axes),
        tuple(axis.taps for axis in axes),
        pads,
        tuple(axis.places for axis in axes),
    )


class _Axis(NamedTuple):
    """One dimension of `Phases`."""

    start: int
    taps: int
    places: int
    low: int
    high: int


def _axis(extent: int, count: int, kernel: int, stride: int, pad: int) -> _Axis:
    taps, places, start = -(-kernel // stride), count // stride, pad % stride
    low = taps - 1 - pad // stride
    last = (stride - 1 + start) // stride
    return _Axis(start, taps, places, low, places + last + taps - 1 - low - extent)


def phase_weights(w: SSAValue, phases: Phases) -> list[Operation]:
    """Return ops for weights [O, phases..., C, taps...] of kernels w [C, O, kernel...], flipped."""
    (inputs, outputs, *kernel), rank = shape_of(w), len(phases.taps)
    whole = [m * s for m, s in zip(phases.taps, phases.strides, strict=True)]
    made: list[Operation] = []

    def last() -> SSAValue:
        return made[-1].results[0] if made else w

    if whole != kernel:
        room = (0, 0, *(n - k for n, k in zip(whole, kernel, strict=True)))
        made.append(PadOp(last(), low=(0,) * len(room), high=room))
    parts = [n for pair in zip(phases.taps, phases.strides, strict=True) for n in pair]
    made.append(ReshapeOp(last(), (inputs, outputs, *parts)))
    order = [1, *range(3, 3 + 2 * rank, 2), 0, *range(2, 2 + 2 * rank, 2)]
    made.append(TransposeOp(last(), order))
    for axis, start in enumerate(phases.starts):
        if start:
            made += _rolled(last(), 1 + axis, start)
    if max(phases.taps) > 1:
        shape = shape_of(last())
        ends = (*(0 for _ in shape[: 2 + rank]), *(m - 1 for m in phases.taps))
        made.append(SliceOp(last(), ends, shape, (*(1 for _ in shape[: 2 + rank]), *[-1] * rank)))
    return made


def _rolled(value: SSAValue, axis: int, start: int) -> list[Operation]:
    """Rotate the elements along an axis so that those from `start` come first."""
    shape = shape_of(value)

    def part(first: int, count: int) -> SliceOp:
        starts, extents = [0] * len(shape), list(shape)
        starts[axis], extents[axis] = first, count
        return SliceOp(value, starts, extents)

    parts: Sequence[Operation] = [part(start, shape[axis] - start), part(0, start)]
    return [*parts, ConcatOp(parts, axis=axis)]


def vector_products(phases: Phases, channels: int, lanes: int) -> tuple[int, int]:
    """Return the number of vector operations per input channel with a separate convolution for each
    phase, and with one convolution that has all phases as channels."""
    apart = -(-channels // lanes) * math.prod(
        upper_bound(n) * s for n, s in zip(phases.places, phases.strides, strict=True)
    )
    count = math.prod(phases.strides)
    windows = math.prod(
        upper_bound(n) + (s - 1 + start) // s
        for n, s, start in zip(phases.places, phases.strides, phases.starts, strict=True)
    )
    return apart, -(-channels * count // lanes) * windows
