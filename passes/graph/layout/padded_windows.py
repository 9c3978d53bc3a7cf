"""Operators that move a window over their first operand, which could read its padding there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tcopt.dialects.graph.core.attributes import PoolKind, integer
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import shape_of
from tcopt.dialects.graph.core.windows import Window, window_properties
from tcopt.dialects.graph.packed.bit_conv import BitConvOp
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.dialects.graph.packed.blocked_conv_transpose import BlockedConvTransposeOp
from tcopt.dialects.graph.packed.winograd_tiles import WinogradTilesOp
from tcopt.dialects.graph.reduction.pool import PoolOp
from tcopt.passes.graph.layout.borders import Border
from tcopt.support.registries.rule_table import OpFunction


@dataclass(frozen=True)
class PaddedWindow:
    """The padding that an operator could read from a border around its first operand.

    Attributes:
        op: the operator; its property `pads` lists the pads.
        border: border that contains the padding; empty if nothing is padded.
        pads: returns the remaining pads on data inside of a border that contains `border`; they are
            negative where the border is wider.
        copies: whether the op copies its first operand in order to pad it.
    """

    op: GraphOp
    border: Border
    pads: Callable[[Border], Sequence[int]]
    copies: bool = False

    def inside(self, x: SSAValue, border: Border) -> GraphOp:
        """Return the same op on `x`, its first operand inside of a border."""
        pads = self.pads(border)
        properties = {k: v for k, v in self.op.properties.items() if k != "pads"}
        if (left := window_properties(None, pads, None)["pads"]) is not None:
            properties["pads"] = left
        if "pad_value" in properties and max(pads, default=0) <= 0:
            properties["pad_value"] = integer(0)
        operands = [x, *self.op.operands[1:]]
        result = self.op.result_types
        return type(self.op).create(operands=operands, properties=properties, result_types=result)


padded_window: OpFunction[[bool], PaddedWindow | None] = OpFunction(__name__, None)
"""The padding of an op; None if it does not move a window over its first operand, or the padding is
not a known constant.

The argument says whether all elements of the operand are non-negative.
"""


def _pads_inside(
    window: Window, spatial: slice, op: GraphOp, output: Sequence[int]
) -> Callable[[Border], Sequence[int]]:
    extents = shape_of(op.operands[0])[spatial]
    return lambda border: window.pads_inside(
        border.low[spatial], border.high[spatial], extents, output
    )


@padded_window.rule_for(BlockedConvOp)
def _blocked_conv(op: BlockedConvOp, nonnegative: bool) -> PaddedWindow:
    spatial, x = slice(2, 2 + op.spatial_rank), shape_of(op.x)
    low, high = (
        [0 if skipped else n for n, skipped in zip(side, op.skipped, strict=True)]
        for side in op.window.border(x[spatial], op.places)
    )
    border = Border.spatial(low, high, len(x), op.pad_value.value.data)
    pads = _pads_inside(op.window, spatial, op, op.places)
    return PaddedWindow(op, border, pads, op.stores_pads)


@padded_window.rule_for(BlockedConvTransposeOp)
def _blocked_conv_transpose(op: BlockedConvTransposeOp, nonnegative: bool) -> PaddedWindow:
    spatial, x = slice(2, 2 + op.spatial_rank), shape_of(op.x)
    low, high = op.window.border(x[spatial], op.places)
    pads = _pads_inside(op.window, spatial, op, op.places)
    return PaddedWindow(op, Border.spatial(low, high, len(x)), pads, op.window.is_padded)


@padded_window.rule_for(BitConvOp)
def _bit_conv(op: BitConvOp, nonnegative: bool) -> PaddedWindow:
    spatial = slice(1, 1 + op.spatial_rank)
    low, high = op.window.border(shape_of(op.x)[spatial], op.places)
    border = Border((0, *low, 0, 0), (0, *high, 0, 0))
    return PaddedWindow(
        op, border, _pads_inside(op.window, spatial, op, op.places), op.window.is_padded
    )


@padded_window.rule_for(WinogradTilesOp)
def _winograd_tiles(op: WinogradTilesOp, nonnegative: bool) -> PaddedWindow:
    border = Border.spatial(*op.border, len(op.shape))

    def pads(inside: Border) -> Sequence[int]:
        window, (top, side), (bottom, end) = op.window, inside.low[2:4], inside.high[2:4]
        own = (*window.low, *window.high)
        return [n - there for n, there in zip(own, (top, side, bottom, end), strict=True)]

    return PaddedWindow(op, border, pads, not border.is_empty)


@padded_window.rule_for(PoolOp)
def _pool(op: PoolOp, nonnegative: bool) -> PaddedWindow | None:
    """Return the window if zeros in its padding are harmless.

    Zeros are never the only maximum of a window that contains a non-negative element. An average
    counts them if it includes pads.
    """
    spatial, x = slice(2, None), shape_of(op.x)
    low, high = op.window.border(x[spatial], op.shape[spatial])
    border = Border.spatial(low, high, len(x))
    if op.kind.data is PoolKind.MAX:
        harmless = nonnegative and min(min(row) for row in op.inside_counts()) > 0
    elif op.kind.data is PoolKind.LP:
        harmless = True
    else:
        harmless = op.count_include_pad is not None and all(
            a <= b for a, b in zip(high, op.window.high, strict=True)
        )
    if not border.is_empty and not harmless:
        return None
    return PaddedWindow(op, border, _pads_inside(op.window, spatial, op, op.shape[spatial]))
