"""Convolutions by Winograd's algorithm, where it is faster and accurate enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from tcopt.dialects.graph.blocked_conv import BlockedConvOp
from tcopt.dialects.graph.constant import ConstantOp, is_made_of_constants
from tcopt.dialects.graph.conv import ConvOp
from tcopt.dialects.graph.shape import ReshapeOp, TransposeOp
from tcopt.dialects.graph.types import bytes_of, element_type, shape_of
from tcopt.dialects.graph.winograd import WinogradConvOp, WinogradWeightsOp
from tcopt.dialects.graph.winograd_plain import WinogradPlainConvOp
from tcopt.dialects.target import CpuTargetAttr, GpuTargetAttr, cpu_target_of, gpu_target_of
from tcopt.passes.graph import winograd_cost, winograd_gpu_cost
from tcopt.passes.graph.split_groups import is_joined_by_groups, split_groups
from tcopt.passes.graph.winograd_cost import Layer
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

    Weights are constants, whose transform `fold-constants` then evaluates. For each convolution
    the time of the direct form and of each tile that the accuracy allows is estimated from the
    target's facts; the least wins.

    On CPUs channels are in blocks, and groups become convolutions of their own, which are
    concatenated in memory.

        %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32>
    ->
        %u = graph.winograd_weights %w {tile = 4} : tensor<6x6x4x4x16x16xf32>
        %y = graph.winograd_conv %x, %u {tile = 4, pads = [1, 1, 1, 1]}
            : tensor<1x4x56x56x16xf32>

    On GPUs they are not in blocks: neighbours are pixels, and then tiles.

        %y = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<8x64x56x56xf32>
    ->
        %v = graph.winograd_weights ... {tile = 4} : tensor<6x6x1x1x64x64xf32>
        %u = graph.reshape %v : tensor<6x6x64x64xf32>
        %y = graph.winograd_plain_conv %x, %u {tile = 4, pads = [1, 1, 1, 1]}
            : tensor<8x64x56x56xf32>

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
        target = cpu_target_of(op) or gpu_target_of(op)
        if target is None and not self.tile:
            return
        for function in op.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                self._convert(function.body.block, target)

    def _convert(self, body: Block, target: CpuTargetAttr | GpuTargetAttr | None) -> None:
        resident = sum(bytes_of(op.type) for op in body.ops if isinstance(op, ConstantOp))
        # In the layout in which the target contracts channels.
        form = ConvOp if isinstance(target, GpuTargetAttr) else BlockedConvOp
        for op in list(body.ops):
            if not isinstance(op, form):
                continue
            if (reason := unsuitable(op)) is not None:
                remark(self.name, op, f"direct: {reason}", missed=True)
                continue
            tile = self.tile
            if not tile and target is not None:
                tile = self._choose(op, resident, target)
            if not tile:
                continue
            if isinstance(op, ConvOp):
                _replace_plain(op, tile)
            else:
                for conv in [op] if op.group_count == 1 else split_groups(op):
                    _replace(conv, tile)

    def _choose(
        self, op: BlockedConvOp | ConvOp, resident: int, target: CpuTargetAttr | GpuTargetAttr
    ) -> int:
        """The best tile; 0 for the direct form."""
        direct, times = estimates(layer_of(op, resident), target, ALLOWED[self.accuracy])
        own = KERNEL_CYCLES if op.group_count > 1 else 0
        times = {m: time + own for m, time in times.items()}
        best = min(times, key=times.__getitem__)
        shown = ", ".join(f"F({m}x{m}) {direct / time:.2f}x" for m, time in times.items())
        if times[best] > WORTH * direct:
            remark(self.name, op, f"direct: estimated speed-ups are {shown}", missed=True)
            return 0
        remark(self.name, op, f"F({best}x{best}, 3x3): estimated speed-ups are {shown}")
        return best


def estimates(
    layer: Layer, target: CpuTargetAttr | GpuTargetAttr, tiles: Sequence[int]
) -> tuple[float, dict[int, float]]:
    """The time of the direct form, and of each tile that the target has room for."""
    if isinstance(target, CpuTargetAttr):
        times = {m: winograd_cost.winograd_cycles(layer, m, target) for m in tiles}
        return winograd_cost.direct_cycles(layer, target), times
    fitting = [m for m in tiles if winograd_gpu_cost.fits_registers(m, target)] or [min(tiles)]
    times = {m: winograd_gpu_cost.winograd_cycles(layer, m, target) for m in fitting}
    return winograd_gpu_cost.direct_cycles(layer, target), times


def unsuitable(op: BlockedConvOp | ConvOp) -> str | None:
    """Why a convolution has no form through tiles; None if it has."""
    window = op.window
    if isinstance(op, ConvOp):
        layout = ((op.group_count > 1, "it has groups"),)
    else:
        apart = op.group_count == 1 or is_joined_by_groups(op)
        layout = (
            (op.is_depthwise, "it is depthwise"),
            (not apart, "its groups are not apart in memory"),
            (op.is_plain, "its input channels are no blocks"),
        )
    reasons = (
        *layout,
        (window.kernel != (TAPS, TAPS), f"its kernel is {'x'.join(map(str, window.kernel))}"),
        (set(window.strides) != {1}, "it has strides"),
        (set(window.dilations) != {1}, "it is dilated"),
        (element_type(op.x) != f32, f"it computes in {element_type(op.x)}"),
        (0 in op.shape, "it is empty"),
        (not is_made_of_constants(op.w), "its weights are not known at compile time"),
    )
    return next((reason for holds, reason in reasons if holds), None)


def layer_of(op: BlockedConvOp | ConvOp, resident: int) -> Layer:
    """What costs of each group depend on."""
    images, outputs, height, width, *lanes = op.shape
    x, groups = shape_of(op.x), op.group_count
    inputs, outputs = x[1] * prod(x[4:]) // groups, outputs * prod(lanes) // groups
    return Layer(images, height, width, inputs, outputs, resident)


def _replace(op: BlockedConvOp, tile: int) -> None:
    window = op.window
    weights = WinogradWeightsOp(op.w, tile=tile)
    new = WinogradConvOp(op.x, weights, tile=tile, pads=(*window.low, *window.high))
    _insert(op, [weights, new])


def _replace_plain(op: ConvOp, tile: int) -> None:
    """All channels are one block of the weights while they are transformed."""
    window = op.window
    outputs, inputs, *kernel = shape_of(op.w)
    last = TransposeOp(op.w, [2, 3, 1, 0])
    block = ReshapeOp(last, [1, 1, *kernel, inputs, outputs])
    weights = WinogradWeightsOp(block, tile=tile)
    flat = ReshapeOp(weights, [*shape_of(weights.result)[:2], inputs, outputs])
    pads = (*window.low, *window.high)
    _insert(op, [last, block, weights, flat, WinogradPlainConvOp(op.x, flat, tile=tile, pads=pads)])


def _insert(op: BlockedConvOp | ConvOp, ops: Sequence[Operation]) -> None:
    """Put ops in the place of one, whose result that of the last is."""
    block = op.parent
    assert block is not None
    for each in ops:
        each.location = op.location
        block.insert_op_before(each, op)
    (new,) = ops[-1].results
    new.name_hint = op.result.name_hint
    op.result.replace_all_uses_with(new)
    op.detach()
    op.erase()
