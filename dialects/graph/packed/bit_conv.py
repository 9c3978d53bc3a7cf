"""Convolution of values of few bits, on words of their bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr, i32
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import FusionKind, Int, Ints, flag, integer
from tcopt.dialects.graph.core.forms import CONTRACTION
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.stages import tap_axes, window_taps
from tcopt.dialects.graph.core.types import AnyTensor, Array, element_type, shape_of, tensor
from tcopt.dialects.graph.core.windows import Window, view_windows, window_properties
from tcopt.dialects.graph.packed.pack_bits import WORD_TYPE
from tcopt.dialects.intrinsics.bit_dots import WORD, bit_products
from tcopt.dialects.te import api as te


@irdl_op_definition
class BitConvOp(GraphOp):
    """Convolution [N, O / b, positions..., b] in i32 of words of bits.

    Data is [N, spatial..., W, bits] as `graph.pack_bits` produces it, weights are
    [O / b, W / groups, kernel..., bits, b]. Bit n of a value is in its word n; with `data_signed`
    or `weights_signed` the last word is negative, as in two's complement. Pads are zero.

    With `exclusive`, the sum counts differing bits instead of products: a pair of bits counts 1 if
    it is (0, 1) or (1, 0), times the powers of two of both bits. If weight bits represent -1 and 1,
    the product of a weight and a data bit is the weight's bit (0 or 1) minus that count.
    """

    name = "graph.bit_conv"
    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE
    COUNTS_ON: ClassVar[str] = CONTRACTION

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    strides = opt_prop_def(Ints)
    pads = opt_prop_def(Ints)
    dilations = opt_prop_def(Ints)
    groups = prop_def(Int, default_value=integer(1))
    exclusive = opt_prop_def(UnitAttr)
    data_signed = opt_prop_def(UnitAttr)
    weights_signed = opt_prop_def(UnitAttr)
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
        exclusive: bool = False,
        data_signed: bool = False,
        weights_signed: bool = False,
    ):
        properties = {
            **window_properties(strides, pads, dilations),
            "groups": integer(groups),
            "exclusive": flag(exclusive),
            "data_signed": flag(data_signed),
            "weights_signed": flag(weights_signed),
        }
        super().__init__([x, w], properties)

    @property
    def group_count(self) -> int:
        """Number of groups, each of which reads its own words."""
        return self.groups.value.data

    @property
    def spatial_rank(self) -> int:
        """Number of spatial dimensions."""
        return len(shape_of(self.x)) - 3

    @property
    def block(self) -> int:
        """Output channels in a block."""
        return shape_of(self.w)[-1]

    @property
    def planes(self) -> tuple[int, int]:
        """Number of bits of data and of weights."""
        return shape_of(self.x)[-1], shape_of(self.w)[-2]

    @property
    def signs(self) -> int:
        """Which operands are signed, encoded for `bit_products`."""
        return (self.data_signed is not None) + 2 * (self.weights_signed is not None)

    @property
    def window(self) -> Window:
        """Window of the convolution."""
        kernel = shape_of(self.w)[2 : 2 + self.spatial_rank]
        return Window.of(kernel, self.strides, self.pads, self.dilations, crops=True)

    @property
    def places(self) -> tuple[int, ...]:
        """Number of window positions in each spatial dimension."""
        return self.shape[2:-1]

    @property
    def stores_anywhere(self) -> bool:
        """Whether elements are completed in registers: sums are computed a tile at a time."""
        return True

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [N, O / b, window positions..., b]."""
        x, w, rank = shape_of(self.x), shape_of(self.w), self.spatial_rank
        if rank < 0 or len(w) != rank + 4:
            raise VerifyException(f"data of rank {len(x)} does not fit weights of rank {len(w)}")
        if any(element_type(each) != WORD_TYPE for each in self.operands):
            raise VerifyException("operands should be words of 32 bits")
        groups = self.group_count
        if groups < 1 or w[0] % groups or x[-2] != w[1] * groups:
            text = f"{x[-2]} words of data and {w[1]} of weights in {w[0]} blocks"
            raise VerifyException(f"{text} do not split into {groups} groups")
        output = self.window.output(x[1 : 1 + rank])
        return (tensor((x[0], w[0], *output, w[-1]), i32),)

    def work(self) -> int:
        """Return the operation count: two operations for each product, as if words were full."""
        w = shape_of(self.w)
        return 2 * math.prod(self.shape) * math.prod(w[1 : 2 + self.spatial_rank]) * WORD

    # Padding

    # Evaluation and tensor expression

    def compute(self, x: Array, w: Array) -> Array:
        """Evaluate with numpy: products of the values, from which the number of differing bits
        follows."""
        rank, groups, window = self.spatial_rank, self.group_count, self.window
        data = _numbers(x, self.data_signed is not None)
        data = np.moveaxis(data.reshape(*x.shape[: 1 + rank], -1), -1, 1)
        weights = _numbers(np.moveaxis(w, -2, -1), self.weights_signed is not None)
        # [O / b, W, kernel..., b, 32] with outputs (blocks and lanes) before channels (words and
        # bits).
        weights = np.moveaxis(weights, (-2, -1), (1, 3))
        weights = weights.reshape(groups, -1, w.shape[1] * WORD, *window.kernel)
        if rank:
            windows = view_windows(data, window, self.places, 0)
            windows = windows.reshape(x.shape[0], groups, -1, *windows.shape[2:])
        else:
            windows = data.reshape(x.shape[0], groups, -1)
        taps, places = "uvwt"[:rank], "xyzs"[:rank]
        terms = f"ngi{places}{taps},goi{taps}->ngo{places}"
        sums = np.einsum(terms, windows, weights, optimize=True)
        if self.exclusive is not None:
            first, second = (
                sum(-(1 << n) if signed and n == count - 1 else 1 << n for n in range(count))
                for count, signed in zip(self.planes, (self.signs & 1, self.signs & 2), strict=True)
            )
            ones = np.ones_like(windows), np.ones_like(weights)
            sums = (
                second * np.einsum(terms, windows, ones[1], optimize=True)
                + first * np.einsum(terms, ones[0], weights, optimize=True)
                - 2 * sums
            )
        blocks = sums.reshape(x.shape[0], w.shape[0], self.block, *self.places)
        return np.moveaxis(blocks, 2, -1)

    def tensor_expression(self, x: te.Tensor, w: te.Tensor) -> te.Tensor:
        """Return a pad stage if there are pads, then one reduction."""
        window, rank = self.window, self.spatial_rank
        per_group = w.shape[0] // self.group_count
        x, moved = self._padded(x)
        taps = tap_axes(window.kernel)
        word, bit = te.reduce_axis(w.shape[1], "rc"), te.reduce_axis(WORD, "bit")

        def body(n: te.Axis, o: te.Axis, *rest: te.Axis) -> Any:
            places, lane = rest[:-1], rest[-1]
            at = window_taps(places, taps, window.strides, window.dilations)
            at = [i + by if by else i for i, by in zip(at, moved, strict=True)]
            first: Any = word
            if self.group_count > 1:
                first = o // per_group * w.shape[1] + word
            data = [x[(n, *at, first, i)] for i in range(x.shape[-1])]
            weights = [w[(o, word, *taps, j, lane)] for j in range(w.shape[-2])]
            exclusive = self.exclusive is not None
            term = bit_products(data, weights, bit, exclusive=exclusive, signs=self.signs)
            return te.sum(term, axis=[*taps, word, bit])

        assert len(taps) == rank
        return te.compute(self.shape, body, name="conv")

    def _padded(self, x: te.Tensor) -> tuple[te.Tensor, list[int]]:
        """Return the data with zero padding, and the offset of the first window in it."""
        window, rank = self.window, self.spatial_rank
        if not window.is_padded:
            return x, [-low for low in window.low]
        rows = zip(self.places, window.strides, window.span, strict=True)
        extents = [(count - 1) * stride + span for count, stride, span in rows]

        def pad(n: te.Axis, *rest: te.Axis) -> te.Expr:
            at = (place - low for place, low in zip(rest[:rank], window.low, strict=True))
            return x.read((n, *at, *rest[rank:]), default=0)

        return te.compute((x.shape[0], *extents, *x.shape[1 + rank :]), pad, "pad"), [0] * rank


def _numbers(words: Array, signed: bool) -> Array:
    """Decode words [..., bits] to values [..., 32], as floats that are exact."""
    count = words.shape[-1]
    bits = words[..., None].astype(np.int64) >> np.arange(WORD) & 1
    weights = [-(1 << n) if signed and n == count - 1 else 1 << n for n in range(count)]
    return np.einsum("...ib,i->...b", bits, np.array(weights)).astype(np.float64)
