"""Convolution over channels in blocks, which always fills vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.attributes import (
    FusionKind,
    Int,
    Ints,
    flag,
    integer,
    ints,
    values_of,
)
from tcopt.dialects.graph.core.forms import CONTRACTION
from tcopt.dialects.graph.core.stages import in_group, narrow, pad_space, tap_axes, window_taps
from tcopt.dialects.graph.core.types import AnyTensor, Array, shape_of, tensor
from tcopt.dialects.graph.core.windows import Window, view_windows, window_properties
from tcopt.dialects.te import api as te


@irdl_op_definition
class BlockedConvOp(ContractionOp):
    """Convolution whose result is [N, O / b, spatial..., b].

    There are three forms:

    - blocked: data [N, C / a, spatial..., a], weights [O / b, C / a, kernel..., a, b]; with
      `groups`, weights hold the C / groups / a blocks that a group reads;
    - with `plain`, for channels that do not fill blocks: data [N, C, spatial...], weights
      [O / b, C / groups, kernel..., b];
    - depthwise, if weights have one dimension less than data: data [N, C / b, spatial..., b],
      weights [C / b, kernel..., b].

    In the first form weights may be [O / b, C / a, kernel..., a / g, b, g], with g adjacent
    channels for instructions that add g products at once. Elements of pads are `pad_value`.

    In the spatial dimensions that `skips` lists, padding is not materialised: terms that would read
    it are skipped. The result is the same. This suits dilated windows and small images, where many
    taps read only zeros.
    """

    name = "graph.blocked_conv"
    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE
    COUNTS_ON: ClassVar[str] = CONTRACTION

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    strides = opt_prop_def(Ints)
    pads = opt_prop_def(Ints)
    dilations = opt_prop_def(Ints)
    groups = prop_def(Int, default_value=integer(1))
    plain = opt_prop_def(UnitAttr)
    pad_value = prop_def(Int, default_value=integer(0))
    skips = opt_prop_def(Ints)
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        w: SSAValue | Operation,
        *,
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        groups: int = 1,
        plain: bool = False,
        pad_value: int = 0,
        skips: Sequence[int] = (),
        result_element: Attribute | None = None,
    ):
        properties = {
            **window_properties(strides, pads, dilations),
            "groups": integer(groups),
            "plain": flag(plain),
            "pad_value": integer(pad_value),
            "skips": ints(skips) if skips else None,
            "result_element": result_element,
        }
        super().__init__([x, w], properties)

    @property
    def group_count(self) -> int:
        """Number of groups, each of which reads its own blocks of channels."""
        return self.groups.value.data

    @property
    def is_plain(self) -> bool:
        """Whether the data's channels are not in blocks."""
        return self.plain is not None

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel has a filter of its own."""
        return len(shape_of(self.w)) == len(shape_of(self.x)) - 1

    @property
    def group(self) -> int:
        """Number of adjacent input channels in weights, for dot-product instructions."""
        return shape_of(self.w)[-1] if len(shape_of(self.w)) == len(shape_of(self.x)) + 2 else 1

    @property
    def block(self) -> int:
        """Output channels in a block."""
        return shape_of(self.w)[-1 if self.group == 1 else -2]

    @property
    def spatial_rank(self) -> int:
        """Number of spatial dimensions."""
        return len(shape_of(self.x)) - (2 if self.is_plain else 3)

    @property
    def window(self) -> Window:
        """Window of the convolution."""
        first = 1 if self.is_depthwise else 2
        kernel = shape_of(self.w)[first : first + self.spatial_rank]
        return Window.of(kernel, self.strides, self.pads, self.dilations, crops=True)

    @property
    def skipped(self) -> tuple[bool, ...]:
        """For each spatial dimension, whether taps outside the data are skipped."""
        listed = values_of(self.skips) or ()
        return tuple(d in listed for d in range(self.spatial_rank))

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [N, O / b, window positions..., b]."""
        x, w, rank = shape_of(self.x), shape_of(self.w), self.spatial_rank
        forms = (len(x) + 1,) if self.is_plain else (len(x) - 1, len(x) + 1, len(x) + 2)
        if rank < 1 or len(w) not in forms:
            raise VerifyException(f"data of rank {len(x)} does not fit weights of rank {len(w)}")
        if self.is_depthwise:
            fits = (x[1], x[-1]) == (w[0], w[-1])
        elif self.is_plain:
            fits = x[1] == w[1] * self.group_count
        else:
            inner = w[-2] if self.group == 1 else w[-3] * self.group
            fits = (x[1], x[-1]) == (w[1] * self.group_count, inner)
        if self.group_count != 1 and self.is_depthwise:
            raise VerifyException("depthwise weights cannot be grouped")
        if self.group_count < 1 or w[0] % self.group_count:
            raise VerifyException(f"{w[0]} blocks do not split into {self.group_count} groups")
        skips = values_of(self.skips) or ()
        if any(not 0 <= d < rank for d in skips) or (skips and self.pad_value.value.data):
            raise VerifyException(f"skips {list(skips)} are not dimensions padded with zeros")
        if not fits:
            raise VerifyException(f"channels of data {list(x)} and weights {list(w)} differ")
        output = self.window.output(x[2 : 2 + rank])
        return (tensor((x[0], w[0], *output, self.block), self.sum_element()),)

    @property
    def places(self) -> tuple[int, ...]:
        """Number of window positions in each spatial dimension."""
        return self.shape[2:-1]

    @property
    def stores_pads(self) -> bool:
        """Whether there are pads that are not skipped."""
        window = self.window
        rows = zip(window.low, window.high, self.skipped, strict=True)
        return any(max(low, high) > 0 and not skipped for low, high, skipped in rows)

    def work(self) -> int:
        """Return the operation count: two operations for each product."""
        w = shape_of(self.w)
        terms = math.prod(w) // (w[0] * self.block)
        return 2 * math.prod(self.shape) * terms

    def compute(self, x: Array, w: Array) -> Array:
        """Evaluate the op with numpy."""
        rank, output = self.spatial_rank, self.shape[2:-1]
        data = x if self.is_plain else np.moveaxis(x, -1, 2).reshape(x.shape[0], -1, *x.shape[2:-1])
        windows = view_windows(data, self.window, output, self.pad_value.value.data)
        taps = "uvw"[:rank]
        places = "xyz"[:rank]
        if self.is_depthwise:
            blocks = windows.reshape(x.shape[0], x.shape[1], x.shape[-1], *windows.shape[2:])
            return np.einsum(f"ncb{places}{taps},c{taps}b->nc{places}b", blocks, w, optimize=True)
        if self.group > 1:
            w = np.moveaxis(w, -1, -2).reshape(*w.shape[:-3], -1, self.block)
        flat = w if self.is_plain else np.moveaxis(w, -2, 2)
        groups = self.group_count
        flat = flat.reshape(groups, w.shape[0] // groups, -1, *self.window.kernel, w.shape[-1])
        windows = windows.reshape(x.shape[0], groups, -1, *windows.shape[2:])
        terms = f"ngi{places}{taps},goi{taps}b->ngo{places}b"
        return np.einsum(terms, windows, flat, optimize=True).reshape(self.shape)

    def tensor_expression(self, x: te.Tensor, w: te.Tensor) -> te.Tensor:
        """Return a pad stage if pads are materialised, then one reduction."""
        window, skipped = self.window, self.skipped
        moved = [-low for low in window.low]
        if self.stores_pads:
            rows = zip(self.places, window.strides, window.span, strict=True)
            extents = [(count - 1) * stride + span for count, stride, span in rows]
            kept = x.shape[2 : 2 + self.spatial_rank]
            x = pad_space(
                x,
                [0 if s else low for low, s in zip(window.low, skipped, strict=True)],
                [k if s else n for k, n, s in zip(kept, extents, skipped, strict=True)],
                self.pad_value.value.data,
            )
            moved = [by if s else 0 for by, s in zip(moved, skipped, strict=True)]
        taps = tap_axes(window.kernel)
        if self.is_depthwise:
            axes = taps
        elif self.is_plain:
            axes = [te.reduce_axis(w.shape[1], "rc"), *taps]
        else:
            inner = te.reduce_axis(x.shape[-1], "ri")
            axes = [te.reduce_axis(w.shape[1], "rc"), *taps, inner]

        per_group = w.shape[0] // self.group_count

        def read(at: tuple[Any, ...]) -> te.Expr:
            return x.read(at, default=0) if any(skipped) else x[at]

        def first(o: te.Axis) -> Any:
            """Return the first channel, or block of channels, of an output block's group."""
            if per_group == w.shape[0]:
                return axes[0]
            return o // per_group * w.shape[1] + axes[0]

        def body(n: te.Axis, o: te.Axis, *rest: te.Axis) -> Any:
            places, lane = rest[:-1], rest[-1]
            at = window_taps(places, taps, window.strides, window.dilations)
            at = [i + by if by else i for i, by in zip(at, moved, strict=True)]
            if self.is_depthwise:
                left, right = read((n, o, *at, lane)), w[(o, *taps, lane)]
            elif self.is_plain:
                left, right = read((n, first(o), *at)), w[(o, axes[0], *taps, lane)]
            else:
                left = read((n, first(o), *at, axes[-1]))
                right = w[(o, axes[0], *taps, *in_group(axes[-1], lane, self.group))]
            return te.sum(self.widened(left) * self.widened(right), axis=axes)

        result = te.compute(self.shape, body, name="conv")
        return narrow(result, self.type.element_type)
