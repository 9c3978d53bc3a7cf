"""Handlers of Resize and its predecessor Upsample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import is_float
from tcopt.dialects.graph.images.resize_positions import constant_ratio, cubic_weight
from tcopt.frontends.onnx.context.builder import names_of
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.matrix import product
from tcopt.frontends.onnx.model.errors import OpenSizeError
from tcopt.support.arithmetic.sizes import Size, bounds_of, is_fixed, upper_bound

_COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@handler("Upsample", until=9)
def upsample_by_attribute(ctx: NodeContext) -> SSAValue:
    """Upsampling with scales given as an attribute."""
    return _simple_resize(ctx, ctx.get_floats("scales") or [])


@handler("Upsample", since=9)
def upsample_by_input(ctx: NodeContext) -> SSAValue:
    """Upsampling with scales given as an operand."""
    return _simple_resize(ctx, _floats(ctx, 1, "the scales"))


@handler("Resize", until=11)
def resize_by_scales(ctx: NodeContext) -> SSAValue:
    """The first version of Resize: like Upsample, but it can also shrink."""
    return _simple_resize(ctx, _floats(ctx, 1, "the scales"))


def _floats(ctx: NodeContext, index: int, what: str) -> list[float]:
    return [float(v) for v in ctx.constant(index, what).reshape(-1)]


def _scaled(extent: int, scale: float) -> int:
    # Rounded to 32 bits as in onnxruntime: 10 * 0.7 is 7, whereas the double product gives 6.
    if not isinstance(extent, Size):
        return math.floor(np.float32(extent) * np.float32(scale))
    low, high = bounds_of(extent)
    extents = np.arange(low, high + 1)
    wanted = np.floor(extents.astype(np.float32) * np.float32(scale))
    for limit in (1 << 4, 1 << 8, 1 << 12):
        ratio = Fraction(float(np.float32(scale))).limit_denominator(limit)
        if np.array_equal(extents * ratio.numerator // ratio.denominator, wanted):
            return extent * ratio.numerator // ratio.denominator
    raise OpenSizeError(f"resizing {extent} elements by {scale}", names_of([extent]))


def _check_scales(ctx: NodeContext, scales: Sequence[float], count: int) -> None:
    ctx.check(len(scales) == count, f"there should be {count} scales, not {len(scales)}")
    ctx.check(all(s > 0 and math.isfinite(s) for s in scales), f"scales {scales} are not positive")


def _simple_resize(ctx: NodeContext, scales: list[float]) -> SSAValue:
    """Resize on the grid i / scale; nearest rounds up when shrinking, down when growing."""
    x = ctx.input(0)
    _check_scales(ctx, scales, ctx.rank(x))
    mode = _mode(ctx)
    growing = [max(scale, 1.0) for scale in scales]
    shrinking = [min(scale, 1.0) for scale in scales]
    passes = [(growing, "floor"), (shrinking, "ceil")] if mode == "nearest" else [(scales, "floor")]
    for part, nearest_mode in passes:
        if set(part) == {1.0}:
            continue
        sizes = [_scaled(n, scale) for n, scale in zip(ctx.shape(x), part, strict=True)]
        x = ctx.emit(
            graph.ResizeOp(
                x,
                scales=part,
                sizes=sizes,
                mode=mode,
                coordinate="asymmetric",
                nearest_mode=nearest_mode,
            )
        )
    return x


def _mode(ctx: NodeContext) -> str:
    mode = ctx.get_string("mode")
    mode = "linear" if mode == "bilinear" else mode
    ctx.check(mode in ("nearest", "linear", "cubic"), f"mode cannot be {mode!r}")
    return mode


@handler("Resize", since=11)
def resize(ctx: NodeContext) -> SSAValue:
    """Interpolation to given sizes or by given scales, for all or some axes."""
    x = ctx.input(0)
    rank = ctx.rank(x)
    coordinate = ctx.get_string("coordinate_transformation_mode")
    ctx.check(coordinate in _COORDINATES, f"coordinates cannot be {coordinate!r}")
    nearest_mode = ctx.get_string("nearest_mode")
    ctx.check(nearest_mode in _NEAREST, f"nearest_mode cannot be {nearest_mode!r}")
    given = ctx.get_ints("axes") if ctx.opset >= 18 else None
    axes = ctx.axes(range(rank) if given is None else given, rank)
    roi = _roi(ctx, axes, rank) if coordinate == "tf_crop_and_resize" else None
    scales, sizes = _extents(ctx, axes, roi)
    if tuple(sizes) == ctx.shape(x) and roi is None and set(scales or ()) <= {1.0}:
        return x
    mode, element = _mode(ctx), ctx.element(x)
    if mode != "nearest":
        # Integers are interpolated as floats; onnxruntime truncates the results.
        x = cast(ctx, x, element if is_float(element) else f32)
    resized = graph.ResizeOp(
        x,
        scales=scales,
        sizes=sizes,
        mode=mode,
        coordinate=coordinate,
        nearest_mode=nearest_mode,
        roi=roi,
        cubic_a=ctx.get_float("cubic_coeff_a"),
        exclude_outside=ctx.get_bool("exclude_outside"),
        extrapolation=ctx.get_float("extrapolation_value"),
    )
    if ctx.get_bool("antialias", 0):
        if mode == "nearest" or roi is not None:
            ctx.unsupported(
                "antialias is only supported for linear and cubic resizing of whole data"
            )
        return cast(ctx, _without_aliases(ctx, resized), element)
    return cast(ctx, ctx.emit(resized), element)


_READ_COST = 48
"""Matrix multiply-adds that take as long as reading one element next to its neighbours."""


def _without_aliases(ctx: NodeContext, resized: graph.ResizeOp) -> SSAValue:
    """Resize with windows that grow as the result shrinks: weighted sums along each axis, starting
    with the axis that shrinks the most. Along rows, gathers read elements one by one. If windows
    cover much of a short row, a matrix product with the whole row is faster.
    """
    x = resized.x
    if names := names_of([*resized.shape, *ctx.shape(x)]):
        raise OpenSizeError("antialias of Resize", names)
    for axis in sorted(resized.resized_axes(), key=lambda d: resized.shape[d] / ctx.shape(x)[d]):
        extent, rank = ctx.shape(x)[axis], ctx.rank(x)
        places, shares = _windows(resized, axis, extent)
        shares = shares.astype(ctx.builder.dtype_of(x))
        if axis == rank - 1 and extent <= _READ_COST * len(places):
            weights = np.zeros((extent, shares.shape[1]), shares.dtype)
            np.add.at(weights, (places, np.arange(shares.shape[1])), shares)
            x = product(ctx, x, ctx.array(weights))
            continue
        # [..., taps, new, ...]: neighbours along the axis remain neighbours.
        taps = ctx.emit(graph.GatherOp(x, ctx.array(places), axis=axis))
        weights = ctx.array(shares.reshape(*shares.shape, *[1] * (rank - axis - 1)))
        taps = ctx.emit(graph.MulOp(taps, weights))
        x = ctx.emit(graph.ReduceOp(taps, kind="sum", axes=[axis]))
    return x


def _windows(resized: graph.ResizeOp, axis: int, extent: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the elements of the operand that contribute to each index along an axis, and their
    weights: [taps, new]. Indices are clamped at the edges.
    """
    place, scale = resized.coordinates(axis), min(resized.fixed_scale(axis), 1.0)
    reach = math.ceil((2 if resized.mode.data == "cubic" else 1) / scale)
    taps = np.floor(place) + np.arange(1 - reach, reach + 1)[:, None]
    distances = np.abs(taps - place) * scale
    if resized.mode.data == "cubic":
        shares = cubic_weight(distances, resized.cubic_a.value.data)
    else:
        shares = np.maximum(1 - distances, 0)
    if resized.exclude_outside is not None:
        shares = np.where((taps >= 0) & (taps < extent), shares, 0)
    shares /= shares.sum(axis=0, keepdims=True)
    used = shares.any(axis=1)
    return np.clip(taps[used], 0, extent - 1).astype(np.int64), shares[used]


_FAR = 2.0**96
"""Limit on region coordinates, so that their products with extents are accurate in f32."""


def _roi(ctx: NodeContext, axes: list[int], rank: int) -> list[float]:
    """Return the region of interest of all axes: starts, followed by ends."""
    given = _floats(ctx, 1, "the region of interest")
    ctx.check(len(given) == 2 * len(axes), f"the region should have {2 * len(axes)} numbers")
    ctx.check(
        all(abs(place) <= _FAR for place in given), f"the region {given} is too far from the data"
    )
    roi = [0.0] * rank + [1.0] * rank
    for index, axis in enumerate(axes):
        roi[axis], roi[axis + rank] = given[index], given[index + len(axes)]
    return roi


def _extents(
    ctx: NodeContext, axes: list[int], roi: list[float] | None
) -> tuple[list[float] | None, list[int]]:
    """Return the scales and the result extents; no scales if they are ratios of sizes."""
    shape = ctx.shape(ctx.input(0))
    scales, sizes = [1.0] * len(shape), list(shape)
    if _is_given(ctx, 2) == _is_given(ctx, 3):
        ctx.malformed("either scales or sizes should be given")
    if _is_given(ctx, 2):
        given = _floats(ctx, 2, "the scales")
        _check_scales(ctx, given, len(axes))
        for axis, scale in zip(axes, given, strict=True):
            part = 1.0 if roi is None else roi[axis + len(shape)] - roi[axis]
            scales[axis] = scale
            sizes[axis] = _scaled(shape[axis], scale * part)
        return scales, sizes
    # Batches and channels are seldom resized.
    wanted = ctx.extents(3, "the sizes", likely=[shape[axis] for axis in axes])
    ctx.check(len(wanted) == len(axes), f"sizes {wanted} should have {len(axes)} entries")
    ctx.check(all(upper_bound(n) > 0 for n in wanted), f"sizes {wanted} are not positive")
    policy = ctx.get_string("keep_aspect_ratio_policy", "stretch")
    ctx.check(
        policy in ("stretch", "not_larger", "not_smaller"),
        f"keep_aspect_ratio_policy cannot be {policy!r}",
    )
    for axis, size in zip(axes, wanted, strict=True):
        sizes[axis] = size
    if policy != "stretch" and not is_fixed((*wanted, *shape)):
        raise OpenSizeError("keep_aspect_ratio_policy of Resize", names_of([*wanted, *shape]))
    ratios: list[float] = []
    for axis in axes:
        ratio = constant_ratio(sizes[axis], shape[axis] or 1)
        if ratio is None:
            return None, sizes
        ratios.append(ratio)
    for axis, ratio in zip(axes, ratios, strict=True):
        scales[axis] = ratio
        if policy != "stretch":
            scales[axis] = min(ratios) if policy == "not_larger" else max(ratios)
            sizes[axis] = math.floor(scales[axis] * shape[axis] + 0.5)
    return scales, sizes


def _is_given(ctx: NodeContext, index: int) -> bool:
    """Whether a scales or sizes operand is present and not empty, as it may be in opset 11."""
    value = ctx.optional_input(index)
    return value is not None and ctx.shape(value) != (0,)
