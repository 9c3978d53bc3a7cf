"""Winograd tiles for which integer convolutions are exact, and their speed-up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import i16, i32
from xdsl.ir import Block

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.forms import WINOGRAD, form_declined
from tcopt.dialects.graph.core.types import bytes_of, shape_of
from tcopt.dialects.intrinsics import added_at_once
from tcopt.dialects.target import TargetFacts
from tcopt.dialects.target.convolution_costs import ConvLayer, ConvolutionCosts
from tcopt.passes.graph.precision.integer_ranges import IntegerRanges
from tcopt.passes.graph.winograd.exactness import inexact
from tcopt.passes.graph.winograd.forms import WinogradForm, winograd_form
from tcopt.support.arithmetic.winograd_tables import tiles_of

MOST_PLACES = 8
"""Maximum number of products of a tile's row, over all phases: transforms are unrolled, and their
code size grows quadratically."""

WORTH = 0.9
"""Maximum ratio of the estimated time to that of the direct form."""


def written_out(taps: int, phases: int) -> list[int]:
    """Return the output tiles whose unrolled transforms are not too large."""
    most = MOST_PLACES // phases - taps + 1
    return [tile for tile in tiles_of(taps) if tile <= most]


def whole_tiles(taps: int, phases: int) -> list[int]:
    """Return the tiles of `written_out` whose matrices can be integers."""
    return [m for m in written_out(taps, phases) if m in tiles_of(taps, whole=True)]


def estimates(
    layer: ConvLayer, costs: ConvolutionCosts, tiles: Sequence[int]
) -> tuple[float, dict[int, float]]:
    """Return the times of the direct form, and of each tile that fits the target's memory."""
    fitting = [m for m in tiles if costs.has_room(layer, m)] or sorted(tiles)[:1]
    return costs.direct(layer), {m: costs.winograd(layer, m) for m in fitting}


def resident_bytes(body: Block) -> int:
    """Return the bytes of a function's constants."""
    return sum(bytes_of(op.type) for op in body.ops if isinstance(op, ConstantOp))


@dataclass(frozen=True)
class ExactTiles:
    """Analysis of the tiles that are exact for convolutions of 16-bit integers on a target.

    Attributes:
        ranges: ranges of a function's integers.
    """

    target: TargetFacts | None
    ranges: IntegerRanges

    def terms(self, op: ContractionOp, form: WinogradForm) -> int:
        """Return the number of channels that a dot product of the target sums; 1 without one."""
        if not form.whole or self.target is None:
            return 1
        group = added_at_once(self.target.capabilities, (i16, i16), i32)
        return group if shape_of(op.weights)[-2] % group == 0 else 1

    def of(self, op: ContractionOp, form: WinogradForm) -> list[int] | str:
        """Return the tiles for which a convolution is exact, or the reason why there are none."""
        if self.target is not None and self.terms(op, form) == 1:
            return "the target has no dot product of 16-bit integers"
        data, weights = self.ranges.of(op.operands[0]), self.ranges.array(op.weights)
        if data is None or weights is None:
            return "the range of its integers is unknown"
        tiles = whole_tiles(form.taps, form.phases)
        found = {m: inexact(m, form.taps, data, weights) for m in tiles}
        exact = [m for m, reason in found.items() if reason is None]
        return exact or next(
            (r for r in found.values() if r is not None), "no tile has integer transforms"
        )

    def share(self, op: ContractionOp, resident: int) -> float:
        """Return the ratio of the best tile's estimated time to the direct time; 1 without tiles.

        Args:
            resident: bytes of the function's constants.
        """
        costs = None if self.target is None else self.target.convolution_costs
        form = winograd_form(op, False)
        if costs is None or not isinstance(form, WinogradForm) or not form.whole:
            return 1.0
        tiles = self.of(op, form)
        if isinstance(tiles, str) or form_declined(WINOGRAD, op, self.target) is not None:
            return 1.0
        layer = form.layer(op, resident, self.terms(op, form))
        direct, times = estimates(layer, costs, tiles)
        best = min(times.values())
        return best / direct if best <= WORTH * direct else 1.0
