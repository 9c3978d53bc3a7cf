"""Tensor-expression stages shared by several operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from xdsl.ir import Attribute

from tcopt.dialects.graph.core.types import is_half
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.sizes import is_fixed

IndexLike: TypeAlias = "te.Index | int"
Indices: TypeAlias = Sequence[IndexLike]


def image_compute(shape: Sequence[int], body: Callable[..., Any], name: str) -> te.Tensor:
    """Return a stage over [N, C, spatial...] whose axes have the conventional names."""

    def line(n: te.Axis, c: te.Axis, x: te.Axis) -> Any:
        return body(n, c, x)

    def plane(n: te.Axis, c: te.Axis, y: te.Axis, x: te.Axis) -> Any:
        return body(n, c, y, x)

    def space(n: te.Axis, c: te.Axis, z: te.Axis, y: te.Axis, x: te.Axis) -> Any:
        return body(n, c, z, y, x)

    named: dict[int, Callable[..., Any]] = {3: line, 4: plane, 5: space}
    return te.compute(shape, named.get(len(shape), body), name=name)


def read_broadcast(x: te.Tensor, axes: Indices) -> te.Expr:
    """Read x at output axes, where x's shape broadcasts to the output's."""
    own = axes[len(axes) - len(x.shape) :]
    return x[tuple(0 if extent == 1 else axis for extent, axis in zip(x.shape, own, strict=True))]


def widen(value: te.Expr) -> te.Expr:
    """Convert 16-bit floats to f32, in which they are accumulated."""
    return te.cast(value, "f32") if is_half(value.dtype) else value


def reciprocal(count: int, dtype: Attribute) -> te.Expr:
    """Return one over a number of elements, which may be a size."""
    if is_fixed((count,)):
        return te.const(1 / count, dtype)
    return te.const(1, dtype) / te.const(count, dtype)


def narrow(x: te.Tensor, element: Attribute) -> te.Tensor:
    """Round an accumulated tensor to an element type by a stage, if its type differs."""
    if x.dtype == element:
        return x
    return te.compute(x.shape, lambda *axes: te.cast(x[axes], element), name=f"{x.name}_round")


def reduce_stage(
    shape: Sequence[int],
    axes: Sequence[int],
    combine: Callable[..., Any],
    term: Callable[[Indices], te.Expr],
    name: str,
    *,
    keepdims: bool = False,
) -> te.Tensor:
    """Reduce `term` over `axes` of the iteration space `shape`.

    Args:
        shape: the iteration space.
        axes: the reduced axes, which are dropped, or kept as 1 with `keepdims`.
        combine: a reduction such as `te.sum`.
        term: the element at a full list of indices.
        name: name of the stage.
    """
    reduced = {axis: te.reduce_axis(shape[axis], f"k{n}") for n, axis in enumerate(axes)}
    kept = [axis for axis in range(len(shape)) if keepdims or axis not in reduced]

    def body(*outer: te.Axis) -> Any:
        at: dict[int, IndexLike] = dict(zip(kept, outer, strict=True))
        value = term([reduced.get(axis, at.get(axis, 0)) for axis in range(len(shape))])
        return combine(value, axis=list(reduced.values())) if reduced else value

    extents = [1 if axis in reduced else shape[axis] for axis in kept]
    return te.compute(extents, body, name=name)


def reshape_indices(source: Sequence[int], target: Sequence[int], axes: Indices) -> list[IndexLike]:
    """Map indices `axes` of shape `target` to indices of the same element in shape `source`.

    Runs of dimensions with equal products map onto each other. Unchanged dimensions then need no
    arithmetic, and the others a minimum of divisions.
    """
    result: list[IndexLike] = [0] * len(source)
    if 0 in source:
        return result
    old = [(extent, axis) for axis, extent in enumerate(source) if extent != 1]
    new = [(extent, axis) for axis, extent in enumerate(target) if extent != 1]
    while old or new:
        left, right = [old.pop(0)], [new.pop(0)]
        while (a := math.prod(n for n, _ in left)) != (b := math.prod(n for n, _ in right)):
            side, rest = (left, old) if a < b else (right, new)
            side.append(rest.pop(0))
        _map_run(left, [(extent, axes[axis]) for extent, axis in right], result)
    return result


def _map_run(
    source: Sequence[tuple[int, int]],
    target: Sequence[tuple[int, IndexLike]],
    result: list[IndexLike],
) -> None:
    linear: Any = 0
    for extent, axis in target:
        linear = axis if isinstance(linear, int) else linear * extent + axis
    stride = math.prod(extent for extent, _ in source)
    for place, (extent, axis) in enumerate(source):
        stride //= extent
        index = linear // stride if stride > 1 else linear
        result[axis] = index if place == 0 else index % extent


def pad_space(
    x: te.Tensor, low: Sequence[int], extents: Sequence[int], value: int = 0, name: str = "pad"
) -> te.Tensor:
    """Embed the spatial dimensions of x [N, C, spatial..., rest...] at offset `low` in `extents`,
    filled with `value`."""
    rank = len(extents)

    def body(n: te.Axis, c: te.Axis, *axes: te.Axis) -> te.Expr:
        at = (place - before for place, before in zip(axes[:rank], low, strict=True))
        return x.read((n, c, *at, *axes[rank:]), default=value)

    return image_compute((*x.shape[:2], *extents, *x.shape[2 + rank :]), body, name)


def window_taps(
    places: Indices, taps: Indices, strides: Sequence[int], dilations: Sequence[int]
) -> list[Any]:
    """Return the input indices of window taps at output positions: place * stride + tap *
    dilation."""
    rows = zip(places, taps, strides, dilations, strict=True)
    return [place * stride + tap * dilation for place, tap, stride, dilation in rows]


def tap_axes(kernel: Sequence[int]) -> list[te.Axis]:
    """Return reduction axes over the taps of a kernel."""
    names = ("rz", "ry", "rx")[-len(kernel) :] if len(kernel) <= 3 else [""] * len(kernel)
    return [
        te.reduce_axis(extent, name or f"r{d}")
        for d, (extent, name) in enumerate(zip(kernel, names, strict=True))
    ]


def in_group(channel: te.Axis, lane: te.Axis, group: int) -> Sequence[te.Index]:
    """Return the last indices of weights: channel and lane, or group, lane and channel in the
    group."""
    return (channel, lane) if group == 1 else (channel // group, lane, channel % group)
