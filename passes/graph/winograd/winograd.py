"""Convolutions by Winograd's algorithm, where it is faster and accurate enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.contraction import ContractionOp
from tcopt.dialects.graph.forms import WINOGRAD, form_declined
from tcopt.dialects.graph.tuning import WINOGRAD as WINOGRAD_CHOICE
from tcopt.dialects.graph.tuning import tuned
from tcopt.dialects.graph.types import numpy_dtype, shape_of
from tcopt.dialects.graph.winograd_forms import WinogradForm
from tcopt.dialects.intrinsics import added_at_once
from tcopt.dialects.target import TargetFacts, target_facts_of
from tcopt.dialects.target.convolution_costs import ConvolutionCosts, Layer
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
from tcopt.support.accuracy import ACCURACIES, PRECISE, PRECISIONS
from tcopt.support.errors import PassFailedError
from tcopt.support.remarks import remark
from tcopt.support.rewriting import function_bodies, rewrite
from tcopt.support.winograd_tables import TILES

ALLOWED = {"strict": 4, "default": 6, "fast": 8}
"""Most products for a row of a tile in each accuracy: see docs/accuracy.md for what they lose."""

ROUNDED = {"strict": 0, "default": 0, "fast": 6}
"""The same where transformed data and weights are rounded to 16 bits."""

KERNEL_CYCLES = 10_000
"""Time lost for each group by a kernel of its own: threads meet at its end, and tiles are fewer."""


@dataclass(frozen=True)
class Choice:
    """Tiles of `tile` x `tile` results.

    Attributes:
        element: what transformed data and weights are rounded to; None for nothing.
    """

    tile: int
    element: Attribute | None = None

    def __str__(self) -> str:
        rounded = "" if self.element is None else f" in {self.element}"
        return f"F({self.tile}x{self.tile}){rounded}"


@dataclass
class UseWinograd(RewritePattern):
    """Compute a convolution through transformed tiles, where that takes less time.

        %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32>
    ->
        %u = graph.winograd_weights %w {tile = 4} : tensor<6x6x4x4x16x16xf32>
        %y = graph.winograd_conv %x, %u {tile = 4, pads = [1, 1, 1, 1]}
            : tensor<1x4x56x56x16xf32>

    Attributes:
        target: whose time counts.
        accuracy: which tiles may be used.
        tile: the one to use wherever it is possible; 0 to weigh costs.
        resident: bytes of the constants of the function.
        exact: which tiles integers allow.
        narrow: what the direct form would round its operands to, and tiles may; None for nothing.
    """

    target: TargetFacts | None
    accuracy: str
    tile: int
    resident: int
    exact: ExactTiles
    narrow: Attribute | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ContractionOp, rewriter: PatternRewriter) -> None:
        # In the layout in which the target contracts channels.
        of_pixels = self.target is not None and not self.target.channel_lanes
        form = op.winograd_form(of_pixels)
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
        choice: Choice | None = None
        if tile is None and self.tile:
            tile = self.tile if self.tile in possible else 0
        if tile:
            choice = Choice(tile, self.narrow if tile in rounded else None)
        elif tile is None and costs is not None:
            choice = self.choose(op, form, costs, accurate, rounded)
        if choice is None:
            return
        parts = [op]
        if form.groups > 1:
            *made, joined = op.groups_apart()
            rewriter.insert(made)
            rewriter.replace(op, joined)
            parts = [each for each in made if isinstance(each, ContractionOp)]
        for part in parts:
            group = self.exact.terms(part, form)
            if choice.element is not None:
                group = self.terms(choice.element)
            rewriter.replace(part, form.ops(part, choice.tile, group, choice.element))

    def rounded_tiles(self, op: ContractionOp, form: WinogradForm) -> list[int]:
        """Tiles whose data may be rounded: those of which dot products multiply numbers."""
        if self.narrow is None or form.whole or form.of_pixels:
            return []
        group = self.terms(self.narrow)
        if group == 1 or shape_of(op.weights)[-2] % group:
            return []
        return allowed_tiles(self.accuracy, form.taps, form.phases, rounded=True)

    def terms(self, element: Attribute) -> int:
        """Products of rounded numbers that the target adds at once; 1 without a dot product."""
        capabilities = frozenset[str]() if self.target is None else self.target.capabilities
        return added_at_once(capabilities, (element, element), f32)

    def wanted(self, op: ContractionOp, accurate: Sequence[int]) -> int | None:
        """The tile that is chosen for an op; None where none is that may be used."""
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
    ) -> Choice | None:
        """The best of the tiles; None for the direct form.

        Args:
            tiles, rounded: that may be used, and whose data may be rounded.
        """
        name = WinogradPass.name
        if not tiles:
            remark(name, op, "direct: no tile is accurate and small enough", missed=True)
            return None
        layer = form.layer(op, self.resident, self.exact.terms(op, form))
        direct, single = estimates(layer, costs, tiles)
        times = {Choice(m): time for m, time in single.items()}
        if self.narrow is not None and not form.whole:
            smaller = self.rounded(layer, self.narrow)
            direct, narrow = estimates(smaller, costs, rounded)
            times |= {Choice(m, self.narrow): time for m, time in narrow.items()}
        own = KERNEL_CYCLES if form.groups > 1 else 0
        times = {each: time + own for each, time in times.items()}
        best = min(times, key=times.__getitem__)
        shown = ", ".join(f"{each} {direct / time:.2f}x" for each, time in times.items())
        if times[best] > WORTH * direct:
            remark(name, op, f"direct: estimated speed-ups are {shown}", missed=True)
            return None
        remark(name, op, f"{best}, {form.taps}x{form.taps}: estimated speed-ups are {shown}")
        return best

    def rounded(self, layer: Layer, element: Attribute) -> Layer:
        """A layer whose operands have fewer bits."""
        size = numpy_dtype(element).itemsize
        return replace(
            layer,
            element_bytes=size,
            resident=layer.resident * size // layer.element_bytes,
            terms=self.terms(element),
        )


def allowed_tiles(accuracy: str, taps: int, phases: int = 1, *, rounded: bool = False) -> list[int]:
    """Output tiles for a filter that are accurate and small enough.

    Args:
        rounded: whether transformed data and weights are rounded to 16 bits.
    """
    most = (ROUNDED if rounded else ALLOWED)[accuracy] - taps + 1
    return [tile for tile in written_out(taps, phases) if tile <= most]


@dataclass(frozen=True)
class WinogradPass(ModulePass):
    """Compute convolutions through transformed tiles, F(m x m, r x r).

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

    Where a stride divides the kernel, every stride-th element in each direction is a channel of
    its own, of a convolution of stride 1. Each phase of a transposed convolution is one, too;
    a tile holds outputs of all of them.

        %y = graph.blocked_conv_transpose %x, %w {starts = [1, 1], pads = [1, 1, 1, 1]}
            : tensor<1x4x32x32x16xf32>
    ->
        %t = graph.transpose %w {perm = [0, 3, 1, 4, 2, 5, 6, 7]} : ...
        %r = graph.reshape %t : tensor<4x8x4x4x16x16xf32>
        %u = graph.winograd_weights %r {tile = 3, phases = 2} : tensor<8x8x4x8x16x16xf32>
        %y = graph.winograd_conv %x, %u
            {tile = 3, phases = 2, starts = [1, 1], pads = [1, 1, 1, 1]}
            : tensor<1x4x32x32x16xf32>

    On GPUs channels are not in blocks: neighbours are pixels, and then tiles. Kernels are 3x3.

        %y = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<8x64x56x56xf32>
    ->
        %v = graph.winograd_weights ... {tile = 4} : tensor<6x6x1x1x64x64xf32>
        %u = graph.reshape %v : tensor<6x6x64x64xf32>
        %y = graph.winograd_plain_conv %x, %u {tile = 4, pads = [1, 1, 1, 1]}
            : tensor<8x64x56x56xf32>

    Where `lower-precision` follows, the direct form has operands of fewer bits, of which the target
    may add several products at once. Where it does and the accuracy is `fast`, transformed data and
    weights are rounded likewise, of tiles up to F(4x4, 3x3); others stay as they are.

        %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x4x56x56x16xf32>
    ->
        %v = graph.winograd_weights %w {tile = 4} : tensor<6x6x4x4x16x16xf32>
        %u = graph.cast %v : tensor<6x6x4x4x16x16xbf16>
        %r = graph.reshape %u : tensor<6x6x4x4x8x2x16xbf16>
        %g = graph.transpose %r {perm = [0, 1, 2, 3, 4, 6, 5]} : tensor<6x6x4x4x8x16x2xbf16>
        %y = graph.winograd_conv %x, %g {tile = 4, pads = [1, 1, 1, 1]}
            : tensor<1x4x56x56x16xf32>

    Integers of 16 bits, such as data of 8 bits less its zero point where bytes have no dot product,
    are convolved so where the target adds products of them in 32 bits and the result is exactly
    that of the direct form, which constant weights and the range of the data tell. Matrices then
    hold integers, and `accuracy` is of no account.

        %y = graph.blocked_conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : ...
    ->
        %u = graph.winograd_weights %w {tile = 4} : tensor<6x6x8x8x8x8xi16>
        %r = graph.reshape %u : tensor<6x6x8x8x4x2x8xi16>
        %g = graph.transpose %r {perm = [0, 1, 2, 3, 4, 6, 5]} : tensor<6x6x8x8x4x8x2xi16>
        %y = graph.winograd_conv %x, %g {tile = 4, pads = [1, 1, 1, 1]} : tensor<1x8x56x56x8xi32>

    What `tune.winograd` of an op chooses goes before estimates, as far as the accuracy allows it.

    Options:
        accuracy: `strict` loses nothing against a direct convolution, such as F(2x2, 3x3);
            `default` allows F(4x4, 3x3) and what has as many products, `fast` F(6x6, 3x3).
        tile: use this tile wherever it is possible, instead of weighing costs.
        precision: what operands of direct convolutions will be rounded to.
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
