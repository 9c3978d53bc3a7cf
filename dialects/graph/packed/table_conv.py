"""Convolution by tables of sums of the data, indexed by bits of the weights."""

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
from tcopt.dialects.graph.packed.sum_tables import BYTE_TYPE
from tcopt.dialects.intrinsics.table_sums import MOST_BITS, chosen_entries
from tcopt.dialects.simd import LOW_BITS, part_bits
from tcopt.dialects.te import api as te


@irdl_op_definition
class TableConvOp(GraphOp):
    """Convolution [N, O / b, positions..., b] in i32 of tables [N, spatial..., S, G, parts, E].

    Tables are bytes as `graph.sum_tables` produces them, with entries of `bits` bits. Weights are
    bytes [O / b, S, kernel..., planes, G, b]: for each output and bit plane, an index into each
    table, of which the low log2(E) bits are used. The result is the sum of the selected entries,
    those of plane j times 2**j; with `signed`, the last plane is subtracted. There are no pads.
    """

    name = "graph.table_conv"
    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE
    COUNTS_ON: ClassVar[str] = CONTRACTION

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    bits = prop_def(Int)
    strides = opt_prop_def(Ints)
    dilations = opt_prop_def(Ints)
    signed = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        w: SSAValue | Operation,
        *,
        bits: int,
        strides: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        signed: bool = False,
    ):
        properties = window_properties(strides, None, dilations)
        properties.pop("pads", None)
        super().__init__([x, w], {**properties, "bits": integer(bits), "signed": flag(signed)})

    @property
    def spatial_rank(self) -> int:
        """Number of spatial dimensions."""
        return len(shape_of(self.x)) - 5

    @property
    def entry_bits(self) -> int:
        """Number of bits of an entry."""
        return self.bits.value.data

    @property
    def window(self) -> Window:
        """Window of the convolution."""
        kernel = shape_of(self.w)[2 : 2 + self.spatial_rank]
        return Window.of(kernel, self.strides, None, self.dilations)

    @property
    def stores_anywhere(self) -> bool:
        """Whether elements are completed in registers: sums are computed a tile at a time."""
        return True

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [N, O / b, window positions..., b]."""
        x, w, rank = shape_of(self.x), shape_of(self.w), self.spatial_rank
        if rank < 0 or len(w) != rank + 5:
            raise VerifyException(f"tables of rank {len(x)} do not fit weights of rank {len(w)}")
        if any(element_type(each) != BYTE_TYPE for each in self.operands):
            raise VerifyException("operands should be ui8")
        if not 0 < self.entry_bits <= MOST_BITS or x[-2] != len(part_bits(self.entry_bits)):
            raise VerifyException(f"{x[-2]} parts do not hold entries of {self.entry_bits} bits")
        if x[-4] != w[1] or x[-3] != w[-2] or x[-1] & (x[-1] - 1):
            text = f"{x[-4]} x {x[-3]} tables of {x[-1]} entries"
            raise VerifyException(f"{text} do not fit weights {list(w)}")
        output = self.window.output(x[1 : 1 + rank])
        return (tensor((x[0], w[0], *output, w[-1]), i32),)

    def work(self) -> int:
        """Return the operation count: two operations for each selected entry."""
        w = shape_of(self.w)
        return 2 * math.prod(self.shape) * math.prod(w[1:-1])

    def compute(self, x: Array, w: Array) -> Array:
        """Evaluate the op with numpy."""
        rank, window = self.spatial_rank, self.window
        widths = part_bits(self.entry_bits)
        parts = [
            (x[..., n, :].astype(np.int64) & (1 << width) - 1) << LOW_BITS * n
            for n, width in enumerate(widths)
        ]
        entries: Array = sum(parts[1:], parts[0])
        count = entries.shape[-1]
        flat = entries.reshape(*entries.shape[: 1 + rank], -1)
        places = self.shape[2:-1]
        windows = np.moveaxis(flat, -1, 1)
        if rank:
            windows = view_windows(windows, window, places, 0)
        planes = w.shape[-3]
        result = np.zeros(self.shape, np.int64)
        for taps in np.ndindex(*window.kernel):
            at = windows[(..., *taps)] if rank else windows
            each = at.reshape(x.shape[0], *w.shape[1:2], w.shape[-2], count, *places)
            for step, plane, group in np.ndindex(w.shape[1], planes, w.shape[-2]):
                chosen = w[(slice(None), step, *taps, plane, group)].astype(np.int64) % count
                found = np.moveaxis(each[:, step, group], 1, -1)[..., chosen]
                negative = self.signed is not None and plane == planes - 1
                weight = -(1 << plane) if negative else 1 << plane
                result += weight * np.moveaxis(found, -2, 1)
        return result

    def tensor_expression(self, x: te.Tensor, w: te.Tensor) -> te.Tensor:
        """Return one sum over taps, tables and the entries that are selected."""
        window = self.window
        taps = tap_axes(window.kernel)
        step, entry = te.reduce_axis(w.shape[1], "rc"), te.reduce_axis(x.shape[-1], "entry")

        def body(n: te.Axis, o: te.Axis, *rest: te.Axis) -> Any:
            places, lane = rest[:-1], rest[-1]
            at = window_taps(places, taps, window.strides, window.dilations)
            tables = [
                [x[(n, *at, step, group, part, entry)] for part in range(x.shape[-2])]
                for group in range(x.shape[-3])
            ]
            indices = [
                [w[(o, step, *taps, plane, group, lane)] for group in range(w.shape[-2])]
                for plane in range(w.shape[-3])
            ]
            signed = self.signed is not None
            term = chosen_entries(tables, indices, entry, bits=self.entry_bits, signed=signed)
            return te.sum(term, axis=[*taps, step, entry])

        return te.compute(self.shape, body, name="conv")
