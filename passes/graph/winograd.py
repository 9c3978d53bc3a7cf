"""Convolutions by Winograd's algorithm, where it is faster and accurate enough."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block
from xdsl.passes import ModulePass

from tcopt.dialects.graph.blocked_conv import BlockedConvOp
from tcopt.dialects.graph.constant import ConstantOp, is_made_of_constants
from tcopt.dialects.graph.types import bytes_of, element_type, shape_of
from tcopt.dialects.graph.winograd import WinogradConvOp, WinogradWeightsOp
from tcopt.dialects.target import CpuTargetAttr, cpu_target_of
from tcopt.passes.graph.split_groups import is_joined_by_groups, split_groups
from tcopt.passes.graph.winograd_cost import Layer, direct_cycles, winograd_cycles
from tcopt.support.accuracy import ACCURACIES
from tcopt.support.errors import PassFailedError
from tcopt.support.remarks import remark
from tcopt.support.winograd_tables import TAPS, TILES

ALLOWED = {"strict": (2,), "default": (2, 4), "fast": (2, 4, 6)}
"""Output tiles of each accuracy: see docs/accuracy.md for what they lose."""

WORTH = 0.9
"""The share of the direct time that an estimate has to fall below."""

KERNEL_CYCLES = 10_000
"""Time lost for each group by a kernel of its own: threads meet at its end, and tiles are fewer."""


@dataclass(frozen=True)
class Winograd(ModulePass):
    """Compute 3x3 convolutions of stride 1 through transformed tiles, F(m x m, 3x3).

    Channels are in blocks, and weights are constants, whose transform `fold-constants` then
    evaluates. For each convolution the time of the direct form and of each tile that the
    accuracy allows is estimated; the least wins. Groups become convolutions of their own, which
    are concatenated in memory.

        %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32>
    ->
        %u = graph.winograd_weights %w {tile = 4} : tensor<6x6x4x4x16x16xf32>
        %y = graph.winograd_conv %x, %u {tile = 4, pads = [1, 1, 1, 1]}
            : tensor<1x4x56x56x16xf32>

    Options:
        accuracy: `strict` loses nothing against a direct convolution, F(2x2) only; `default`
            allows F(4x4), `fast` F(6x6).
        tile: use this tile wherever it is possible, instead of weighing costs.
    """

    name = "winograd"

    accuracy: str = "default"
    tile: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.accuracy not in ACCURACIES:
            known = ", ".join(ACCURACIES)
            raise PassFailedError(f"winograd: accuracy = '{self.accuracy}' is none of {known}")
        if self.tile and self.tile not in TILES:
            known = ", ".join(map(str, TILES))
            raise PassFailedError(f"winograd: tile = {self.tile} is none of {known}")
        target = cpu_target_of(op)
        if target is None and not self.tile:
            return
        for function in op.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                self._convert(function.body.block, target)

    def _convert(self, body: Block, target: CpuTargetAttr | None) -> None:
        resident = sum(bytes_of(op.type) for op in body.ops if isinstance(op, ConstantOp))
        for op in list(body.ops):
            if not isinstance(op, BlockedConvOp):
                continue
            if (reason := unsuitable(op)) is not None:
                remark(self.name, op, f"direct: {reason}", missed=True)
                continue
            tile = self.tile
            if not tile and target is not None:
                tile = self._choose(op, resident, target)
            if tile:
                for conv in [op] if op.group_count == 1 else split_groups(op):
                    _replace(conv, tile)

    def _choose(self, op: BlockedConvOp, resident: int, target: CpuTargetAttr) -> int:
        """The best tile; 0 for the direct form."""
        layer = layer_of(op, resident)
        direct = direct_cycles(layer, target)
        own = KERNEL_CYCLES if op.group_count > 1 else 0
        times = {m: winograd_cycles(layer, m, target) + own for m in ALLOWED[self.accuracy]}
        best = min(times, key=times.__getitem__)
        shown = ", ".join(f"F({m}x{m}) {direct / time:.2f}x" for m, time in times.items())
        if times[best] > WORTH * direct:
            remark(self.name, op, f"direct: estimated speed-ups are {shown}", missed=True)
            return 0
        remark(self.name, op, f"F({best}x{best}, 3x3): estimated speed-ups are {shown}")
        return best


def unsuitable(op: BlockedConvOp) -> str | None:
    """Why a convolution has no form through tiles; None if it has."""
    window = op.window
    reasons = (
        (op.is_depthwise, "it is depthwise"),
        (op.group_count > 1 and not is_joined_by_groups(op), "its groups are not apart in memory"),
        (op.is_plain, "its input channels are no blocks"),
        (window.kernel != (TAPS, TAPS), f"its kernel is {'x'.join(map(str, window.kernel))}"),
        (set(window.strides) != {1}, "it has strides"),
        (set(window.dilations) != {1}, "it is dilated"),
        (element_type(op.x) != f32, f"it computes in {element_type(op.x)}"),
        (0 in op.shape, "it is empty"),
        (not is_made_of_constants(op.w), "its weights are not known at compile time"),
    )
    return next((reason for holds, reason in reasons if holds), None)


def layer_of(op: BlockedConvOp, resident: int) -> Layer:
    """What costs of each group depend on."""
    images, _, height, width, _ = op.shape
    x, groups = shape_of(op.x), op.group_count
    inputs, outputs = x[1] * x[4] // groups, op.shape[1] * op.shape[4] // groups
    return Layer(images, height, width, inputs, outputs, resident)


def _replace(op: BlockedConvOp, tile: int) -> None:
    window, block = op.window, op.parent
    assert block is not None
    weights = WinogradWeightsOp(op.w, tile=tile)
    new = WinogradConvOp(op.x, weights, tile=tile, pads=(*window.low, *window.high))
    for each in (weights, new):
        each.location = op.location
        block.insert_op_before(each, op)
    new.result.name_hint = op.result.name_hint
    op.result.replace_all_uses_with(new.result)
    op.detach()
    op.erase()
