"""Lookup tables of the possible sums of neighbouring values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import FusionKind, Int, flag, integer
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_of,
    element_type,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.elementwise.quantize import is_quantized
from tcopt.dialects.intrinsics.table_sums import MOST_BITS
from tcopt.dialects.simd import LOW_BITS, part_bits
from tcopt.dialects.te import api as te

BYTE_TYPE = element_of(np.dtype(np.uint8))
"""Element type of tables and of indices."""

_MOST_NUMBERS = 6


class TableShape(NamedTuple):
    """Arrangement of values in tables.

    Attributes:
        numbers: number of values that a table contains the sums of.
        groups: number of tables that are looked up together.
        steps: number of such groups of tables.
        bits: number of bits of an entry.
    """

    numbers: int
    groups: int
    steps: int
    bits: int

    @property
    def terms(self) -> int:
        """Number of values in all tables."""
        return self.numbers * self.groups * self.steps

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tables: [steps, groups, parts, entries]."""
        return self.steps, self.groups, len(part_bits(self.bits)), 1 << self.numbers


@irdl_op_definition
class SumTablesOp(GraphOp):
    """Tables [N, positions..., steps, groups, parts, 2**numbers] of x [N, C, positions..., b].

    x has integers of 8 or 16 bits. The C * b values at a position are divided into groups of
    `numbers`, of which the first steps * groups are used. Entry e of a group's table is `bias` plus
    the sum of the values whose bit is set in e, the first value being the lowest bit; with
    `exclusive`, the sum of the other values is subtracted. Entries have `bits` bits. An entry of
    more than 7 bits is split into two bytes in separate parts: the low 7 bits, and the bits above
    them.

        // %x : tensor<1x1x1x96xi16>
        %t = graph.sum_tables %x {numbers = 6, groups = 8, steps = 2, bits = 11}
             : tensor<1x1x2x8x2x64xui8>
    """

    name = "graph.sum_tables"
    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE

    x = operand_def(TensorType)
    numbers = prop_def(Int)
    groups = prop_def(Int)
    steps = prop_def(Int)
    bits = prop_def(Int)
    bias = opt_prop_def(Int)
    exclusive = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    def __init__(
        self, x: SSAValue | Operation, shape: TableShape, *, bias: int = 0, exclusive: bool = False
    ):
        properties = {
            "numbers": integer(shape.numbers),
            "groups": integer(shape.groups),
            "steps": integer(shape.steps),
            "bits": integer(shape.bits),
            "bias": integer(bias) if bias else None,
            "exclusive": flag(exclusive),
        }
        super().__init__([x], properties)

    @property
    def tables(self) -> TableShape:
        """Arrangement of values in tables."""
        parts = (self.numbers, self.groups, self.steps, self.bits)
        return TableShape(*(each.value.data for each in parts))

    @property
    def added(self) -> int:
        """Constant that is added to each entry."""
        return 0 if self.bias is None else self.bias.value.data

    def infer(self) -> Sequence[AnyTensor]:
        """Return a tensor of bytes."""
        shape, element, made = shape_of(self.x), element_type(self.x), self.tables
        if not is_quantized(element):
            raise VerifyException(f"adds up integers of 8 or 16 bits, not {element}")
        if len(shape) < 3:
            raise VerifyException(f"{list(shape)} should be [N, C, positions..., b]")
        if not 0 < made.numbers <= _MOST_NUMBERS or not 0 < made.bits <= MOST_BITS:
            text = f"tables of {made.numbers} numbers with entries of {made.bits} bits"
            raise VerifyException(f"{text}: at most {_MOST_NUMBERS} and {MOST_BITS}")
        if made.groups < 1 or made.steps < 0 or made.terms > shape[1] * shape[-1]:
            raise VerifyException(
                f"tables of {made.terms} values do not fit the {shape[1] * shape[-1]} values of x"
            )
        return (tensor((shape[0], *shape[2:-1], *made.shape), BYTE_TYPE),)

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        made = self.tables
        placed: Array = np.moveaxis(x, 1, -2).astype(np.int64)
        placed = placed.reshape(*placed.shape[:-2], -1)[..., : made.terms]
        groups = placed.reshape(*placed.shape[:-1], made.steps, made.groups, made.numbers)
        chosen = np.arange(1 << made.numbers)[:, None] >> np.arange(made.numbers) & 1
        if self.exclusive is not None:
            chosen = 2 * chosen - 1
        entries = np.einsum("...i,ei->...e", groups, chosen) + self.added
        widths = part_bits(made.bits)
        parts = [entries >> LOW_BITS * n & (1 << w) - 1 for n, w in enumerate(widths)]
        return np.stack(parts, axis=-2)

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return a stage that computes 16-bit sums and extracts their bytes."""
        made, lanes, rank = self.tables, x.shape[-1], len(x.shape) - 3
        widths = part_bits(made.bits)

        def entry(n: te.Axis, *rest: te.Axis) -> te.Expr:
            *places, step, group, part, number = rest
            total = te.cast(self.added, "i16")
            first = (step * made.groups + group) * made.numbers
            for i in range(made.numbers):
                channel = first + i
                value = te.cast(x[(n, channel // lanes, *places, channel % lanes)], "i16")
                bit = te.shift_right(te.cast(number, "i16"), i) & 1
                total = total + value * (bit * 2 - 1 if self.exclusive is not None else bit)
            moved = te.shift_right(total, te.cast(part, "i16") * LOW_BITS)
            return te.cast(moved & ((1 << max(widths)) - 1), "ui8")

        assert rank >= 0
        return te.compute(self.shape, entry, name="tables")
