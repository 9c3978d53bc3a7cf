"""Rewriting of convolutions by Winograd's algorithm, if it is faster and accurate enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.forms import WINOGRAD, form_declined
from tcopt.dialects.graph.core.tuning import WINOGRAD as WINOGRAD_CHOICE
from tcopt.dialects.graph.core.tuning import tuned
from tcopt.dialects.graph.core.types import numpy_dtype, shape_of
from tcopt.dialects.intrinsics import added_at_once
from tcopt.dialects.target import TargetFacts, target_facts_of
from tcopt.dialects.target.convolution_costs import ConvLayer, ConvolutionCosts
from tcopt.passes.graph.folding.constants import Constants
from tcopt.passes.graph.precision.integer_ranges import IntegerRanges
from tcopt.passes.graph.precision.lower_precision import NARROW_TYPES
from tcopt.passes.graph.winograd.exact_tiles import (
    WORTH,
    ExactTiles,
    estimates,
    resident_bytes,
    written_out,
)
from tcopt.passes.graph.winograd.forms import WinogradForm, winograd_form
from tcopt.support.accuracy import ACCURACIES, PRECISE, PRECISIONS
from tcopt.support.arithmetic.regret import least_regret
from tcopt.support.arithmetic.winograd_tables import TILES
from tcopt.support.errors import PassFailedError
from tcopt.support.ir.rewriting import function_bodies, rewrite
from tcopt.support.remarks import remark

ALLOWED = {"strict": 4, "default": 6, "fast": 8}
"""Maximum number of products of a tile's row at each accuracy; see docs/accuracy.md for the errors.
"""

ROUNDED = {"strict": 0, "default": 0, "fast": 6}
"""The same maximum if transformed data and weights are rounded to 16 bits."""

KERNEL_CYCLES = 10_000
"""Cycles that each group loses because it is a separate kernel: a barrier, and fewer tiles."""


@dataclass(frozen=True)
class WinogradChoice:
    """A choice of tiles with `tile` x `tile` results.

    Attributes:
        element: type to which transformed data and weights are rounded; None for no rounding.
    """

    tile: int
    element: Attribute | None = None

    def __str__(self) -> str:
        rounded = "" if self.element is None else f" in {self.element}"
        return f"F({self.tile}x{self.tile}){rounded}"


@dataclass
class UseWinograd(RewritePattern):
    """Compute a convolution by Winograd tiles if that takes less time.

        %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32>
    ->
        %u = graph.winograd_weights %w {tile = 4} : tensor<6x6x4x4x16x16xf32>
        %y = graph.winograd_conv %x, %u {tile = 4, pads = [1, 1, 1, 1]}
            : tensor<1x4x56x56x16xf32>

    Attributes:
        target: target of the cost model.
        accuracy: accuracy, which limits the tiles.
        tile: tile to use wherever it is possible; 0 to use the cost model.
        resident: bytes of the function's constants.
        exact: analysis of tiles for integers.
        narrow: type to which the direct form would round its operands, and tiles may; or None.
    """

    target: TargetFacts | None
    accuracy: str
    tile: int
    resident: int
    exact: ExactTiles
    narrow: Attribute | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ContractionOp, rewriter: PatternRewriter) -> None:
        # The form for the layout in which the target contracts channels.
        of_pixels = self.target is not None and not self.target.channel_lanes
        form = winograd_form(op, of_pixels)
        if form is None:
            return
        if isinstance(form, str):
            remark(WinogradPass.name, op, f"direct: {form}", missed=True)
            return
        if (declined := form_declined(WINOGRAD, op, self.target)) is not None:
            remark(WinogradPass.name, op, f"direct: {declined}", missed=True)
            return
        exact = self.exact.of(op, form) if form.whole else None
        if isinstance(exact, str):
            remark(WinogradPass.name, op, f"direct: {exact}", missed=True)
            return
        possible = written_out(form.taps, form.phases) if exact is None else exact
        accurate = allowed_tiles(self.accuracy, form.taps, form.phases) if exact is None else exact
        rounded = self.rounded_tiles(op, form)
        costs = None if self.target is None else self.target.convolution_costs
        tile = self.wanted(op, accurate)
        choice: WinogradChoice | None = None
        if tile is None and self.tile:
            tile = self.tile if self.tile in possible else 0
        if tile:
            choice = WinogradChoice(tile, self.narrow if tile in rounded else None)
        elif tile is None and costs is not None:
            choice = self.choose(op, form, costs, accurate, rounded)
        if choice is None:
            return
        parts = [op]
        if form.split is not None:
            *made, joined = form.split()
            rewriter.insert(made)
            rewriter.replace(op, joined)
            parts = [each for each in made if isinstance(each, ContractionOp)]
        for part in parts:
            group = self.exact.terms(part, form)
            if choice.element is not None:
                group = self.terms(choice.element)
            rewriter.replace(part, form.ops(part, choice.tile, group, choice.element))

    def rounded_tiles(self, op: ContractionOp, form: WinogradForm) -> list[int]:
        """Return the tiles that may be rounded, if there is a dot product for the rounded type."""
        if self.narrow is None or form.whole or form.of_pixels:
            return []
        group = self.terms(self.narrow)
        if group == 1 or shape_of(op.weights)[-2] % group:
            return []
        return allowed_tiles(self.accuracy, form.taps, form.phases, rounded=True)

    def terms(self, element: Attribute) -> int:
        """Return the number of terms that a dot product of rounded values sums; 1 without one."""
        capabilities = frozenset[str]() if self.target is None else self.target.capabilities
        return added_at_once(capabilities, (element, element), f32)

    def wanted(self, op: ContractionOp, accurate: Sequence[int]) -> int | None:
        """Return the tile that was chosen for an op by tuning; None without a usable choice."""
        tile = tuned(op, WINOGRAD_CHOICE)
        if tile is None:
            return None
        if tile and tile not in accurate:
            text = f"not F({tile}x{tile}) as chosen: it is not accurate and small enough"
            remark(WinogradPass.name, op, text, missed=True)
            return None
        text = f"F({tile}x{tile}), as chosen" if tile else "direct, as chosen"
        remark(WinogradPass.name, op, text)
        return tile

    def choose(
        self,
        op: ContractionOp,
        form: WinogradForm,
        costs: ConvolutionCosts,
        tiles: Sequence[int],
        rounded: Sequence[int],
    ) -> WinogradChoice | None:
        """Return the tile with the lowest cost; None for the direct form.

        If the batch has a range, costs are estimated for several batches, and the choice with the
        lowest maximum ratio to the best of each batch is returned.

        Args:
            tiles, rounded: usable tiles, and those that may be rounded.
        """
        name = WinogradPass.name
        if not tiles:
            remark(name, op, "direct: no tile is accurate and small enough", missed=True)
            return None
        layers = form.layers(op, self.resident, self.exact.terms(op, form))
        own = KERNEL_CYCLES if form.groups > 1 else 0
        ratios: dict[WinogradChoice, list[float]] = {}
        for layer in layers:
            direct, single = estimates(layer, costs, tiles)
            times = {WinogradChoice(m): time for m, time in single.items()}
            if self.narrow is not None and not form.whole:
                smaller = self.rounded(layer, self.narrow)
                direct, narrow = estimates(smaller, costs, rounded)
                times |= {WinogradChoice(m, self.narrow): time for m, time in narrow.items()}
            for each, time in times.items():
                ratios.setdefault(each, []).append((time + own) / direct)
        direct_form: WinogradChoice | None = None
        best = least_regret({**ratios, direct_form: [WORTH] * len(layers)})
        shown = ", ".join(f"{each} {_speed_ups(of_each)}" for each, of_each in ratios.items())
        if best is None:
            remark(name, op, f"direct: estimated speed-ups are {shown}", missed=True)
            return None
        remark(name, op, f"{best}, {form.taps}x{form.taps}: estimated speed-ups are {shown}")
        return best

    def rounded(self, layer: ConvLayer, element: Attribute) -> ConvLayer:
        """Return the layer with operands of a narrower type."""
        size = numpy_dtype(element).itemsize
        return replace(
            layer,
            element_bytes=size,
            resident=layer.resident * size // layer.element_bytes,
            terms=self.terms(element),
        )


def _speed_ups(ratios: Sequence[float]) -> str:
    least, most = 1 / max(ratios), 1 / min(ratios)
    return f"{least:.2f}x" if f"{least:.2f}" == f"{most:.2f}" else f"{least:.2f}x to {most:.2f}x"


def allowed_tiles(accuracy: str, taps: int, phases: int = 1, *, rounded: bool = False) -> list[int]:
    """Return the output tiles for a filter that are accurate enough and not too large.

    Args:
        rounded: whether transformed data and weights are rounded to 16 bits.
    """
    most = (ROUNDED if rounded else ALLOWED)[accuracy] - taps + 1
    return [tile for tile in written_out(taps, phases) if tile <= most]


@dataclass(frozen=True)
class WinogradPass(ModulePass):
    """Compute convolutions by Winograd's algorithm, F(m x m, r x r).

    Weights are constants, whose transform `fold-constants` then evaluates. For each convolution,
    the cost model estimates the time of the direct form and of each tile that the accuracy permits
    from the target's facts; the fastest is chosen. If the batch has a range, they are estimated for
    several batches, and the tile with the lowest maximum ratio to the fastest is chosen.

    On CPUs, channels are blocked, and groups become separate convolutions, which are concatenated
    in memory.

        %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32>
    ->
        %u = graph.winograd_weights %w {tile = 4} : tensor<6x6x4x4x16x16xf32>
        %y = graph.winograd_conv %x, %u {tile = 4, pads = [1, 1, 1, 1]}
            : tensor<1x4x56x56x16xf32>

    If a stride divides the kernel, the elements at each offset modulo the stride become separate
    channels of a convolution with stride 1. Each phase of a transposed convolution is a convolution
    too; a tile holds outputs of all of them.

        %y = graph.blocked_conv_transpose %x, %w {starts = [1, 1], pads = [1, 1, 1, 1]}
            : tensor<1x4x32x32x16xf32>
    ->
        %t = graph.transpose %w {perm = [0, 3, 1, 4, 2, 5, 6, 7]} : ...
        %r = graph.reshape %t : tensor<4x8x4x4x16x16xf32>
        %u = graph.winograd_weights %r {tile = 3, phases = 2} : tensor<8x8x4x8x16x16xf32>
        %y = graph.winograd_conv %x, %u
            {tile = 3, phases = 2, starts = [1, 1], pads = [1, 1, 1, 1]}
            : tensor<1x4x32x32x16xf32>

    On GPUs, channels are not blocked: adjacent elements are pixels, and then tiles. Kernels must be
    3x3.

        %y = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<8x64x56x56xf32>
    ->
        %v = graph.winograd_weights ... {tile = 4} : tensor<6x6x1x1x64x64xf32>
        %u = graph.reshape %v : tensor<6x6x64x64xf32>
        %y = graph.winograd_plain_conv %x, %u {tile = 4, pads = [1, 1, 1, 1]}
            : tensor<8x64x56x56xf32>

    If `lower-precision` follows, the direct form has narrower operands, and the target may have a
    dot product for them. In this case, and if the accuracy is `fast`, transformed data and weights
    are rounded as well, with tiles up to F(4x4, 3x3); others are not rounded.

        %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32>
    ->
        %v = graph.winograd_weights %w {tile = 4} : tensor<6x6x4x4x16x16xf32>
        %u = graph.cast %v : tensor<6x6x4x4x16x16xbf16>
        %r = graph.reshape %u : tensor<6x6x4x4x8x2x16xbf16>
        %g = graph.transpose %r {perm = [0, 1, 2, 3, 4, 6, 5]} : tensor<6x6x4x4x8x16x2xbf16>
        %y = graph.winograd_conv %x, %g {tile = 4, pads = [1, 1, 1, 1]}
            : tensor<1x4x56x56x16xf32>

    Convolutions of 16-bit integers, such as 8-bit data minus its zero point on targets without dot
    products of bytes, are rewritten if the target has a 16-bit dot product with 32-bit sums and the
    result is exactly that of the direct form, which follows from the constant weights and the range
    of the data. The matrices then hold integers, and `accuracy` is ignored.

        %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : ...
    ->
        %u = graph.winograd_weights %w {tile = 4} : tensor<6x6x8x8x8x8xi16>
        %r = graph.reshape %u : tensor<6x6x8x8x4x2x8xi16>
        %g = graph.transpose %r {perm = [0, 1, 2, 3, 4, 6, 5]} : tensor<6x6x8x8x4x8x2xi16>
        %y = graph.winograd_conv %x, %g {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x8x56x56x8xi32>

    The attribute `tune.winograd` of an op overrides the cost model, within the limits of the
    accuracy.

    Options:
        accuracy: `strict` permits tiles as exact as a direct convolution, such as F(2x2, 3x3);
            `default` permits F(4x4, 3x3) and tiles with as many products, `fast` F(6x6, 3x3).
        tile: use this tile wherever it is possible, instead of the cost model.
        precision: type to which the operands of direct convolutions will be rounded.
    """

    name = "winograd"

    accuracy: str = "default"
    tile: int = 0
    precision: str = PRECISE

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.accuracy not in ACCURACIES:
            known = ", ".join(ACCURACIES)
            raise PassFailedError(f"winograd: accuracy = '{self.accuracy}' is none of {known}")
        if self.tile and self.tile not in TILES:
            known = ", ".join(map(str, TILES))
            raise PassFailedError(f"winograd: tile = {self.tile} is none of {known}")
        if self.precision not in PRECISIONS:
            known = ", ".join(PRECISIONS)
            raise PassFailedError(f"winograd: precision = '{self.precision}' is none of {known}")
        target = target_facts_of(op)
        if target is None and not self.tile:
            return
        constants = Constants(op)
        narrow = None if self.precision == PRECISE else NARROW_TYPES[self.precision]
        for body in function_bodies(op):
            exact = ExactTiles(target, IntegerRanges(constants))
            resident = resident_bytes(body)
            use = UseWinograd(target, self.accuracy, self.tile, resident, exact, narrow)
            rewrite(body, [use], once=True)
