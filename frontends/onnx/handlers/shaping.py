"""Handlers of operators that change shapes: reshape, transpose, replication."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import broadcast_shapes
from tcopt.dialects.graph.elementwise.of_sizes import is_equal
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler


def reshaped(ctx: NodeContext, x: SSAValue, shape: list[int] | tuple[int, ...]) -> SSAValue:
    """Reshape x unless it already has the shape."""
    return x if ctx.shape(x) == tuple(shape) else ctx.emit(graph.ReshapeOp(x, shape))


@handler("Reshape")
def reshape(ctx: NodeContext) -> SSAValue:
    """Reshape: extent 0 copies the input's (unless allowzero), -1 is inferred."""
    x = ctx.input(0)
    own, shape = ctx.shape(x), ctx.extents(1, "the shape")
    if not ctx.get_bool("allowzero", 0):
        for axis, extent in enumerate(shape):
            if axis < len(own) and extent == own[axis]:
                continue
            if is_equal(extent, 0):
                ctx.check(axis < len(own), f"shape {shape} copies an axis that data lacks")
                shape[axis] = own[axis]
    if shape.count(-1) == 1:
        others = math.prod(extent for extent in shape if extent != -1)
        total = math.prod(own)
        ctx.check(others != 0 and total % others == 0, f"{list(own)} does not reshape to {shape}")
        shape[shape.index(-1)] = total // others
    ctx.check(
        all(extent >= 0 for extent in shape) and math.prod(shape) == math.prod(own),
        f"{list(own)} does not reshape to {shape}",
    )
    return reshaped(ctx, x, shape)


@handler("Flatten")
def flatten(ctx: NodeContext) -> SSAValue:
    """Reshape to a matrix: axes before `axis` become rows, the others columns."""
    x = ctx.input(0)
    shape, axis = ctx.shape(x), ctx.get_int("axis")
    axis = ctx.rank(x) if axis == ctx.rank(x) else ctx.axis(axis, ctx.rank(x))
    return reshaped(ctx, x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


def transposed(ctx: NodeContext, x: SSAValue, perm: Sequence[int]) -> SSAValue:
    """Permute the axes of x unless the permutation is the identity."""
    return x if list(perm) == sorted(perm) else ctx.emit(graph.TransposeOp(x, perm))


@handler("Squeeze")
def squeeze(ctx: NodeContext) -> SSAValue:
    """Removal of axes of extent 1."""
    x = ctx.input(0)
    shape = ctx.shape(x)
    given = ctx.get_ints("axes") if ctx.opset < 13 else ctx.optional_constant_ints(1, "axes")
    if given is None:
        axes = [axis for axis, extent in enumerate(shape) if is_equal(extent, 1)]
    else:
        axes = ctx.axes(given, len(shape))
        ctx.check(
            all(is_equal(shape[axis], 1) for axis in axes),
            f"axes {given} of {list(shape)} are not all of extent 1",
        )
    return reshaped(ctx, x, [n for axis, n in enumerate(shape) if axis not in axes])


@handler("Unsqueeze")
def unsqueeze(ctx: NodeContext) -> SSAValue:
    """Insertion of axes of extent 1; axis numbers refer to the result."""
    x = ctx.input(0)
    given = ctx.get_ints("axes") if ctx.opset < 13 else ctx.constant_ints(1, "axes")
    axes = ctx.axes(given or [], ctx.rank(x) + len(given or []))
    shape = list(ctx.shape(x))
    for axis in sorted(axes):
        shape.insert(axis, 1)
    return reshaped(ctx, x, shape)


@handler("Transpose")
def transpose(ctx: NodeContext) -> SSAValue:
    """Permutation of axes; by default they are reversed."""
    x, perm = ctx.input(0), ctx.get_ints("perm")
    rank = ctx.rank(x)
    perm = list(reversed(range(rank))) if perm is None else perm
    ctx.check(sorted(perm) == list(range(rank)), f"perm {perm} does not permute {rank} axes")
    return transposed(ctx, x, perm)


@handler("Expand")
def expand(ctx: NodeContext) -> SSAValue:
    """Broadcasting to a shape."""
    x, shape = ctx.input(0), ctx.extents(1, "the shape", low=0)
    ctx.check(all(extent >= 0 for extent in shape), f"shape {shape} has a negative extent")
    if broadcast_shapes(ctx.shape(x), shape) == ctx.shape(x):
        return x
    return ctx.emit(graph.BroadcastToOp(x, shape))


@handler("Tile")
def tile(ctx: NodeContext) -> SSAValue:
    """Repetition of the tensor along each axis."""
    x, reps = ctx.input(0), ctx.extents(1, "the number of repetitions", low=0)
    return x if set(reps) <= {1} else ctx.emit(graph.TileOp(x, reps))


@handler("DepthToSpace")
def depth_to_space(ctx: NodeContext) -> SSAValue:
    """Rearrangement of channels into spatial blocks."""
    size, mode = _block(ctx)
    return ctx.emit(graph.DepthToSpaceOp(ctx.input(0), blocksize=size, mode=mode))


def _block(ctx: NodeContext) -> tuple[int, str]:
    size, mode = ctx.get_int("blocksize"), ctx.get_string("mode", "DCR")
    ctx.check(size > 0, f"blocksize is {size}")
    ctx.check(mode in ("DCR", "CRD"), f"mode cannot be {mode!r}")
    return size, mode


@handler("SpaceToDepth")
def space_to_depth(ctx: NodeContext) -> SSAValue:
    """Rearrangement of spatial blocks into channels; the block is outermost or (CRD) innermost."""
    x = ctx.input(0)
    size, mode = _block(ctx)
    result = ctx.emit(graph.SpaceToDepthOp(x, blocksize=size))
    if mode == "DCR":
        return result
    n, channels, *space = ctx.shape(result)
    depth = ctx.shape(x)[1]
    split = reshaped(ctx, result, (n, channels // depth, depth, *space))
    swapped = ctx.emit(graph.TransposeOp(split, (0, 2, 1, 3, 4)))
    return reshaped(ctx, swapped, (n, channels, *space))


@handler("Trilu", "com.microsoft.Trilu")
def trilu(ctx: NodeContext) -> SSAValue:
    """Upper or lower triangle."""
    k = 0 if ctx.optional_input(1) is None else ctx.constant_int(1, "the diagonal")
    return ctx.emit(graph.TriluOp(ctx.input(0), k=k, upper=ctx.get_bool("upper")))
