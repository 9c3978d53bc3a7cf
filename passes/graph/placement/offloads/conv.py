"""Convolutions of bytes for a matrix unit, on blocks of channels."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from tcopt.dialects.graph.contraction.conv import ConvOp
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import element_type, shape_of
from tcopt.dialects.graph.core.windows import Window
from tcopt.dialects.graph.movement.layout import LayoutTransformOp
from tcopt.dialects.graph.movement.pad import PadOp
from tcopt.dialects.graph.movement.shape import ReshapeOp, TransposeOp
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.passes.graph.placement.offload import LARGEST_PRODUCT, Offload, on_matrix_unit

_SPACE = {1: "W", 2: "HW"}


@on_matrix_unit.rule_for(ConvOp)
def offload_conv(op: ConvOp, inner: int, lanes: int) -> Offload | str:
    """Return the form of a convolution for a matrix unit, or the reason why it has none.

    Data becomes [N, C / inner, space.., inner], weights
    [O / lanes, C / inner, kernel.., lanes, inner], the result [N, O / lanes, space.., lanes].
    Non-zero padding is materialised on the host. If few channels would leave a block mostly empty,
    the positions within a stride become channels: 3 channels and a 7x7 kernel of stride 2 become 12
    channels and a 4x4 kernel.
    """
    x, w, rank = shape_of(op.x), shape_of(op.w), len(op.shape) - 2
    if (element_type(op.x), element_type(op.w), op.sum_element()) != (i8, i8, i32):
        return "its operands are not signed bytes summed in 32 bits"
    if rank not in _SPACE or 0 in op.shape:
        return f"it has {rank} spatial dimensions"
    groups = op.group_count
    if groups > 1 and (w[1] % inner or w[0] // groups % lanes):
        return f"its groups of {w[1]} channels are not whole blocks of {inner}"
    writer = _Writer(op.x, op.w, op.window)
    if groups == 1 and _folds(x[1], op.window, inner):
        writer.fold_stride(op, op.pad_value.value.data)
    elif op.pad_value.value.data and any((*op.window.low, *op.window.high)):
        writer.pad(op.pad_value.value.data)
    return writer.offload(op, inner, lanes)


def _folds(channels: int, window: Window, inner: int) -> bool:
    """Whether turning the positions within a stride into channels reduces the number of
    products."""
    if set(window.dilations) != {1} or len(set(window.strides)) != 1 or window.strides[0] == 1:
        return False
    stride = window.strides[0]
    taps = prod(-(-size // stride) for size in window.kernel)
    folded = -(-channels * stride ** len(window.kernel) // inner) * taps
    return folded < -(-channels // inner) * prod(window.kernel)


class _Writer:
    """Builder of the ops before the convolution.

    Attributes:
        data, weights, window: operands and window, after the ops built so far.
    """

    def __init__(self, data: SSAValue, weights: SSAValue, window: Window):
        self.data = data
        self.weights = weights
        self.strides = list(window.strides)
        self.pads = [list(window.low), list(window.high)]
        self.dilations = window.dilations
        self.kernel = window.kernel
        self.ops: list[GraphOp] = []

    def add(self, op: GraphOp) -> SSAValue:
        self.ops.append(op)
        return op.results[0]

    def pad(self, number: int, low: list[int] | None = None, high: list[int] | None = None) -> None:
        """Materialise padding around the data, by default the window's pads."""
        before, after = low or self.pads[0], high or self.pads[1]
        value = self.add(ConstantOp.literal(number, i8)) if number else None
        padded = PadOp(self.data, value, low=[0, 0, *before], high=[0, 0, *after])
        self.data = self.add(padded)
        self.pads = [[0] * len(before), [0] * len(before)]

    def fold_stride(self, op: ConvOp, number: int) -> None:
        """Turn the positions within the stride into channels, in data and weights."""
        stride, kernel = self.strides[0], self.kernel
        taps = [-(-size // stride) for size in kernel]
        outputs, inputs = op.shape[2:], shape_of(op.x)[2:]
        whole = [(n - 1 + size) * stride for n, size in zip(outputs, taps, strict=True)]
        low = self.pads[0]
        high = [n - size - before for n, size, before in zip(whole, inputs, low, strict=True)]
        self.pad(number, low, high)
        self.data = self.fold(self.data, stride)
        missing = [size * stride - k for size, k in zip(taps, kernel, strict=True)]
        zeros = [0] * (2 + len(kernel))
        filled = self.add(PadOp(self.weights, None, low=zeros, high=[0, 0, *missing]))
        self.weights = self.fold(filled, stride)
        self.strides = [1] * len(kernel)

    def fold(self, value: SSAValue, stride: int) -> SSAValue:
        """Rearrange [A, C, H, W] as [A, C s s, H / s, W / s]."""
        first, channels, *space = shape_of(value)
        split = [part for size in space for part in (size // stride, stride)]
        rank = len(space)
        parts = self.add(ReshapeOp(value, (first, channels, *split)))
        perm = [0, 1, *(3 + 2 * n for n in range(rank)), *(2 + 2 * n for n in range(rank))]
        moved = self.add(TransposeOp(parts, perm))
        shape = (first, channels * stride**rank, *(size // stride for size in space))
        return self.add(ReshapeOp(moved, shape))

    def offload(self, op: ConvOp, inner: int, lanes: int) -> Offload:
        space = _SPACE[len(op.shape) - 2]
        blocks = f"NC{space}{inner}c"
        data = self.add(LayoutTransformOp(self.data, src=f"NC{space}", dst=blocks))
        form = f"OI{space}"
        laid_out = self.add(
            LayoutTransformOp(self.weights, src=form, dst=f"{form}{lanes}o{inner}i")
        )
        *outer, o, i = shape_of(laid_out)
        # One instruction multiplies all channels of a block.
        weights = self.add(ReshapeOp(laid_out, (*outer, 1, o, i)))
        product = BlockedConvOp(
            data,
            weights,
            strides=self.strides,
            pads=(*self.pads[0], *self.pads[1]),
            dilations=self.dilations,
            groups=op.group_count,
            result_element=op.result_element,
        )
        result = LayoutTransformOp(
            product, src=f"NC{space}{lanes}c", dst=f"NC{space}", shape=op.shape
        )
        terms = prod(outer[1:]) * inner
        products = prod(shape_of(product.results[0])) * terms
        return Offload(self.ops, [product], [result], products, terms * LARGEST_PRODUCT)
