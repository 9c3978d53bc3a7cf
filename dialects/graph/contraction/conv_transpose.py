"""Transposed convolution over N spatial dimensions, with groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.contraction.conv import ConvolutionOp, ConvOp, group_channels
from tcopt.dialects.graph.core.attributes import Ints, integer, ints, values_of
from tcopt.dialects.graph.core.interfaces import LinearWeight
from tcopt.dialects.graph.core.stages import (
    image_compute,
    narrow,
    tap_axes,
    window_taps,
)
from tcopt.dialects.graph.core.types import AnyTensor, Array, shape_of, tensor
from tcopt.dialects.graph.core.windows import window_properties
from tcopt.dialects.graph.movement.interleave import InterleaveOp
from tcopt.dialects.graph.movement.pad import PadOp
from tcopt.dialects.graph.movement.shape import ReshapeOp, TransposeOp
from tcopt.dialects.graph.movement.slice import SliceOp
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.sizes import is_fixed


@irdl_op_definition
class ConvTransposeOp(ConvolutionOp):
    """Transposed convolution, the gradient of a convolution.

    Data x is [N, C, spatial...], weights w are [C, O / groups, kernel...]. Each input element adds
    its multiple of the kernel at `strides` times its index. `pads` crops the result, `output_pads`
    extends its ends.
    """

    name = "graph.conv_transpose"

    output_pads = opt_prop_def(Ints)

    def __init__(
        self,
        x: SSAValue | Operation,
        w: SSAValue | Operation,
        *,
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        output_pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        groups: int = 1,
    ):
        extra = ints(output_pads) if output_pads is not None and any(output_pads) else None
        super().__init__(
            [x, w],
            {
                **window_properties(strides, pads, dilations),
                "output_pads": extra,
                "groups": integer(groups),
            },
        )

    @property
    def stores_anywhere(self) -> bool:
        """False: results are not completed in registers, as each element reads several taps."""
        return False

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [N, O, (extent - 1) * stride + span + output pad - pads...]."""
        self.check_ranks()
        x, w, window = shape_of(self.x), shape_of(self.w), self.window
        if w[0] != x[1]:
            raise VerifyException(f"weights take {w[0]} channels, data has {x[1]}")
        extra = values_of(self.output_pads) or (0,) * len(window.kernel)
        if len(extra) != len(window.kernel) or min(extra) < 0:
            raise VerifyException(f"output_pads {list(extra)} do not fit {len(x) - 2} dimensions")
        full = self.full_extents()
        output = [
            total + more - low - high
            for total, more, low, high in zip(full, extra, window.low, window.high, strict=True)
        ]
        if any(extent < 1 for extent in output):
            raise VerifyException(f"pads leave no output: {output}")
        channels = w[1] * self.group_count
        return (tensor((x[0], channels, *output), self.sum_element()),)

    def full_extents(self) -> tuple[int, ...]:
        """Return the spatial extents before cropping."""
        window = self.window
        return tuple(
            (extent - 1) * stride + span
            for extent, stride, span in zip(
                shape_of(self.x)[2:], window.strides, window.span, strict=True
            )
        )

    def work(self) -> int:
        """Return the operation count: two operations for each product."""
        return 2 * math.prod(shape_of(self.x)) * math.prod(shape_of(self.w)[1:])

    def linear_weight(self) -> LinearWeight | None:
        """Return the weights if there is one group: the result is linear in them, by output
        channel."""
        return LinearWeight(operand=1, axis=1, channel=1) if self.group_count == 1 else None

    def as_convolution(self) -> Sequence[Operation] | None:
        """Return a convolution whose channels are all phases of the result, and their interleaving.

        With q = index + pad, an element of phase r = q mod stride reads, at b = q div stride, the
        sum over m of x[b - m] * w[r + stride * m]: each phase is a convolution of x by every
        stride-th tap, and all have the same windows. Kernels that strides do not divide, and
        dilated ones, are padded with zeros; phases without taps are not computed. Data that no
        window reads, because pads crop more than a kernel, is sliced off. None if that is all of
        the data.
        """
        window, groups = self.window, self.group_count
        if 0 in self.shape:
            return None
        if set(window.strides) == {1}:
            # The taps keep their dilation.
            dilations, spans = window.dilations, window.kernel
        else:
            dilations, spans = (1,) * len(window.kernel), window.span
        rows = list(zip(window.strides, window.low, self.shape[2:], strict=True))
        taps = [-(-k // s) for k, s in zip(spans, window.strides, strict=True)]
        reach = [(m - 1) * d for m, d in zip(taps, dilations, strict=True)]
        first = [low // s for s, low, _ in rows]
        last = [(count - 1 + low) // s for s, low, count in rows]
        before = [r - b for r, b in zip(reach, first, strict=True)]
        after = [b - n + 1 for b, n in zip(last, shape_of(self.x)[2:], strict=True)]
        extents = shape_of(self.x)[2:]
        if not is_fixed((*before, *after)):
            return None
        if any(n + min(0, *pads) < 1 for n, *pads in zip(extents, before, after, strict=True)):
            return None
        made: list[Operation] = self._phase_weights(spans, taps)
        weights, x = made[-1].results[0], self.x
        if min(*before, *after) < 0:
            made.append(self._inside(before, after))
            x = made[-1].results[0]
        phases = ConvOp(
            x,
            weights,
            pads=[max(0, pad) for pad in (*before, *after)],
            dilations=dilations,
            groups=groups,
            result_element=self.result_element,
        )
        parts = [*(phases.decompose() or (phases,))]
        if parts[-1] is not phases:
            phases.erase()
        made += parts
        if max(window.strides) == 1:
            return made
        woven = InterleaveOp(
            made[-1],
            strides=window.strides,
            starts=[low - s * b for (s, low, _), b in zip(rows, first, strict=True)],
            output=[count for _, _, count in rows],
            groups=groups,
            kept=[min(k, s) for k, s in zip(spans, window.strides, strict=True)],
        )
        return (*made, woven)

    def _inside(self, before: Sequence[int], after: Sequence[int]) -> SliceOp:
        """Slice off the data that negative pads crop."""
        starts = [max(0, -pad) for pad in before]
        extents = [
            extent - start - max(0, -pad)
            for extent, start, pad in zip(shape_of(self.x)[2:], starts, after, strict=True)
        ]
        return SliceOp(self.x, [0, 0, *starts], [*shape_of(self.x)[:2], *extents])

    def _phase_weights(self, spans: Sequence[int], taps: Sequence[int]) -> list[Operation]:
        """Return weights [groups * phases * O, C, taps...] of flipped kernels with extents
        `spans`."""
        (inputs, outputs, *kernel), rank, groups = shape_of(self.w), len(taps), self.group_count
        strides = [min(k, s) for k, s in zip(spans, self.window.strides, strict=True)]
        made: list[Operation] = []

        def last() -> SSAValue:
            return made[-1].results[0] if made else self.w

        if tuple(spans) != tuple(kernel):
            # Insert zeros between the taps of a dilated kernel.
            dilations = self.window.dilations
            apart = [n for k in kernel for n in (k, 1)]
            room = [n for d in dilations for n in (0, d - 1)]
            wide = [k * d for k, d in zip(kernel, dilations, strict=True)]
            made.append(ReshapeOp(last(), (inputs, outputs, *apart)))
            made.append(PadOp(last(), low=(0,) * (2 + 2 * rank), high=(0, 0, *room)))
            made.append(ReshapeOp(last(), (inputs, outputs, *wide)))
            made.append(SliceOp(last(), (0,) * (2 + rank), (inputs, outputs, *spans)))
        whole = [m * s for m, s in zip(taps, strides, strict=True)]
        if whole != list(spans):
            room = (0, 0, *(n - k for n, k in zip(whole, spans, strict=True)))
            made.append(PadOp(last(), low=(0,) * len(room), high=room))
        parts = [n for pair in zip(taps, strides, strict=True) for n in pair]
        made.append(ReshapeOp(last(), (groups, inputs // groups, outputs, *parts)))
        order = [0, *range(4, 4 + 2 * rank, 2), 2, 1, *range(3, 3 + 2 * rank, 2)]
        made.append(TransposeOp(last(), order))
        shape = (groups * math.prod(strides) * outputs, inputs // groups, *taps)
        made.append(ReshapeOp(last(), shape))
        ends, steps = (0, 0, *(m - 1 for m in taps)), (1, 1, *(-1 for _ in taps))
        if max(taps) > 1:
            made.append(SliceOp(last(), ends, shape, steps))
        return made

    @property
    def sums_shifts(self) -> bool:
        """False: shifts are not constant, as elements at edges and between strides sum fewer
        products."""
        return False

    def compute(self, x: Array, w: Array) -> Array:
        """Evaluate with numpy: scatter-add each tap of the kernel."""
        n, c, *extents = x.shape
        groups, window = self.group_count, self.window
        per_group = w.shape[1]
        flat = x.reshape(n, groups, c // groups, math.prod(extents))
        taps = w.reshape(groups, c // groups, per_group, *window.kernel)
        output = self.shape[2:]
        room = [
            max(total, low + extent)
            for total, low, extent in zip(self.full_extents(), window.low, output, strict=True)
        ]
        full = np.zeros((n, groups * per_group, *room), np.result_type(x, w))
        for tap in product(*map(range, window.kernel)) if x.size else ():
            weights = taps[(slice(None), slice(None), slice(None), *tap)]
            part = np.matmul(weights.swapaxes(1, 2), flat)
            places = tuple(
                slice(t * d, t * d + (extent - 1) * s + 1, s)
                for t, d, s, extent in zip(
                    tap, window.dilations, window.strides, extents, strict=True
                )
            )
            full[(slice(None), slice(None), *places)] += part.reshape(
                n, groups * per_group, *extents
            )
        crop = tuple(
            slice(low, low + extent) for low, extent in zip(window.low, output, strict=True)
        )
        return full[(slice(None), slice(None), *crop)]

    def tensor_expression(self, x: te.Tensor, w: te.Tensor) -> te.Tensor:
        """Return the input spread out by the strides and padded, then a convolution with the
        flipped kernel."""
        window, output = self.window, self.shape[2:]
        spread = self._spread(x)
        groups, per_group, in_group = self.group_count, w.shape[1], w.shape[0] // self.group_count
        taps = tap_axes(window.kernel)
        channel = te.reduce_axis(in_group, "rc")
        axes = taps if in_group == 1 and groups > 1 else [channel, *taps]
        ones = (1,) * len(output)

        def body(n: te.Axis, o: te.Axis, *places: te.Axis) -> Any:
            at = window_taps(places, taps, ones, window.dilations)
            flipped = [extent - 1 - tap for extent, tap in zip(window.kernel, taps, strict=True)]
            _, source = group_channels(o, axes, channel, per_group, in_group, groups)
            own = 0 if per_group == 1 else o if groups == 1 else o % per_group
            left = self.widened(spread[(n, source, *at)])
            return te.sum(left * self.widened(w[(source, own, *flipped)]), axis=axes)

        return narrow(image_compute(self.shape, body, "conv_transpose"), self.type.element_type)

    def _spread(self, x: te.Tensor) -> te.Tensor:
        window, output = self.window, self.shape[2:]
        lead = [span - 1 - low for span, low in zip(window.span, window.low, strict=True)]
        extents = [n + span - 1 for n, span in zip(output, window.span, strict=True)]

        def body(n: te.Axis, c: te.Axis, *places: te.Axis) -> te.Expr:
            at: list[Any] = []
            on_grid: list[te.Expr] = []
            for place, before, stride in zip(places, lead, window.strides, strict=True):
                moved: Any = place - before
                at.append(moved // stride if stride > 1 else moved)
                if stride > 1:
                    on_grid.append((moved % stride) == 0)
            value = x.read((n, c, *at), default=0)
            if not on_grid:
                return value
            return te.select(te.all(*on_grid), value, te.const(0, x.dtype))

        return image_compute((*x.shape[:2], *extents), body, "spread")
