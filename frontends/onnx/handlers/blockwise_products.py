"""Matrices quantised by blocks, as in deployed language models: products with them, and lookups of
rows.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext, count_of
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.blockwise_matrices import CodeMatrix, packed
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.indexing import check_range
from tcopt.frontends.onnx.handlers.shaping import reshaped

_INT8 = 4
"""Accuracy level at which data may be rounded to 8 bits, block by block."""


@handler("com.microsoft.MatMulNBits")
def matmul_n_bits(ctx: NodeContext) -> SSAValue:
    """a @ b.T for a matrix b [N, K] of codes with a scale and a zero point per block."""
    x = ctx.input(0)
    depth, columns, size = ctx.get_int("K"), ctx.get_int("N"), ctx.get_int("block_size")
    bits = ctx.get_int("bits", 4)
    ctx.check(bits in (2, 4, 8), f"codes cannot have {bits} bits")
    ctx.check(
        size >= 16 and size & (size - 1) == 0,
        f"block_size {size} is not a power of 2 of at least 16",
    )
    ctx.check(
        depth > 0 and columns > 0, f"a matrix needs rows and columns, not {depth} and {columns}"
    )
    ctx.check(
        ctx.rank(x) > 0 and ctx.shape(x)[-1] == depth, f"the data should have K = {depth} columns"
    )
    blocks = -(-depth // size)
    wanted = columns * blocks * size * bits // 8
    codes, scales = ctx.input(1), ctx.input(2)
    is_bytes = ctx.builder.dtype_of(codes) == np.uint8
    ctx.check(is_bytes and count_of(codes) == wanted, f"b should be {wanted} bytes")
    ctx.check(count_of(scales) == columns * blocks, f"there should be {columns * blocks} scales")
    codes = reshaped(ctx, codes, (columns, blocks, size * bits // 8))
    if ctx.optional_input(4) is not None:
        ctx.check(depth == blocks * size, "with a g_idx, all blocks should be full")
        codes, x = _in_groups(ctx, codes, x, bits)
    scales = reshaped(ctx, scales, (columns, blocks))
    matrix = CodeMatrix(codes, scales, _zeros(ctx, columns, blocks, bits), bits)
    result = matrix.product(ctx, x, rounded=ctx.get_int("accuracy_level", 0) == _INT8)
    bias = ctx.optional_input(5)
    return result if bias is None else ctx.emit(graph.AddOp(result, bias))


@handler("com.microsoft.GatherBlockQuantized")
def gather_block_quantized(ctx: NodeContext) -> SSAValue:
    """Slices of a quantised tensor whose codes have a scale per block along an axis."""
    codes, indices, scales = (ctx.input(place) for place in range(3))
    rank, bits, size = ctx.rank(codes), ctx.get_int("bits"), ctx.get_int("block_size")
    gathered = ctx.axis(ctx.get_int("gather_axis"), rank)
    axis = ctx.axis(ctx.get_int("quantize_axis"), rank)
    is_packed = ctx.builder.dtype_of(codes) == np.uint8
    ctx.check(gathered != axis, f"slices cannot be taken along axis {axis}, which has the blocks")
    ctx.check(ctx.rank(scales) == rank, f"scales should have {rank} dimensions")
    ctx.check(size > 0, f"block_size {size} is not positive")
    if is_packed:
        ctx.check(bits in (2, 4, 8), f"codes cannot have {bits} bits")
        ctx.check(axis == rank - 1, "bytes hold codes of the last axis")
    check_range(ctx, indices, ctx.shape(codes)[gathered])
    place = axis if axis < gathered else axis + ctx.rank(indices) - 1

    def slices(value: SSAValue) -> SSAValue:
        return ctx.emit(graph.GatherOp(value, indices, axis=gathered))

    own = slices(codes)
    own = _unpacked(ctx, own, bits) if is_packed else own
    extent = ctx.shape(own)[place]
    blocks, held = -(-extent // size), ctx.shape(scales)
    wanted = [blocks if d == axis else n for d, n in enumerate(ctx.shape(codes))]
    ctx.check(list(held) == wanted, f"scales {list(held)} should be {wanted}")
    of_block = ctx.array(np.arange(extent, dtype=np.int64) // size)

    def spread(value: SSAValue) -> SSAValue:
        return ctx.emit(graph.GatherOp(value, of_block, axis=place))

    scale, zero = slices(scales), ctx.optional_input(3)
    centred = cast(ctx, own, f32)
    if zero is not None:
        packed = [*held[:-1], -(-blocks * bits // 8)] if is_packed else list(held)
        ctx.check(list(ctx.shape(zero)) == packed, f"zero points should be {packed}")
        zero = slices(zero)
        if is_packed:
            zero = _unpacked(ctx, zero, bits)
            zero = ctx.emit(graph.SliceOp(zero, [0] * ctx.rank(zero), ctx.shape(scale)))
        centred = ctx.emit(graph.SubOp(centred, spread(cast(ctx, zero, f32))))
    elif is_packed:
        centred = ctx.emit(graph.SubOp(centred, ctx.literal(float(1 << (bits - 1)), centred)))
    result = ctx.emit(graph.MulOp(centred, spread(cast(ctx, scale, f32))))
    return cast(ctx, result, ctx.element(scales))


def _in_groups(
    ctx: NodeContext, codes: SSAValue, x: SSAValue, bits: int
) -> tuple[SSAValue, SSAValue]:
    """Order the codes [N, blocks, bytes] and the columns of x by the block of each row of the
    matrix, which the operand g_idx says."""
    columns, blocks, count = ctx.shape(codes)
    size = count * 8 // bits
    groups = ctx.constant(4, "the order of rows")
    is_whole = groups.shape == (blocks * size,) and groups.min(initial=0) >= 0
    is_whole = is_whole and (np.bincount(groups, minlength=blocks) == size).all()
    if not is_whole:
        ctx.unsupported(f"a g_idx of groups that have other sizes than {size} is not supported")
    order = ctx.array(np.argsort(groups, kind="stable").astype(np.int64))
    each = reshaped(ctx, _unpacked(ctx, codes, bits), (columns, blocks * size))
    each = reshaped(ctx, ctx.emit(graph.GatherOp(each, order, axis=1)), (columns, blocks, size))
    moved = ctx.emit(graph.GatherOp(x, order, axis=ctx.rank(x) - 1))
    return packed(ctx, each, bits), moved


def _zeros(ctx: NodeContext, columns: int, blocks: int, bits: int) -> SSAValue | None:
    """Return the zero points of each column's blocks, given as codes or as floats; None if all are
    the middle of the codes.
    """
    given = ctx.optional_input(3)
    if given is None:
        return None
    if ctx.builder.dtype_of(given) == np.uint8:
        row = -(-blocks * bits // 8)
        ctx.check(count_of(given) == columns * row, f"there should be {columns * row} zero bytes")
        given = _unpacked(ctx, reshaped(ctx, given, (columns, row)), bits)
        given = ctx.emit(graph.SliceOp(given, (0, 0), (columns, blocks)))
    ctx.check(count_of(given) == columns * blocks, f"there should be {columns * blocks} zeros")
    given = reshaped(ctx, given, (columns, blocks))
    values = ctx.builder.value_of(given)
    return None if values is not None and (values == 1 << (bits - 1)).all() else given


def _unpacked(ctx: NodeContext, codes: SSAValue, bits: int) -> SSAValue:
    """Unpack codes to bytes along the last axis, lowest bits first."""
    *lead, count = ctx.shape(codes)
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    bytes_ = reshaped(ctx, codes, (*lead, count, 1))
    each = ctx.emit(graph.ShiftRightOp(bytes_, ctx.array(shifts)))
    each = ctx.emit(graph.AndOp(each, ctx.array(np.array((1 << bits) - 1, np.uint8))))
    return reshaped(ctx, each, (*lead, count * (8 // bits)))
