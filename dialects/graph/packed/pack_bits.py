"""Packing of values of few bits into words, one bit plane per word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import FusionKind, Int, integer
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
from tcopt.dialects.intrinsics.bit_dots import WORD
from tcopt.dialects.intrinsics.pack_bits import packed_bit
from tcopt.dialects.te import api as te

WORD_TYPE = element_of(np.dtype(np.uint32))
"""Element type of words."""


def blocks_in_word(blocks: int, lanes: int) -> int:
    """Return the number of blocks of `lanes` values that share a word, which must divide
    `blocks`."""
    return next(n for n in range(max(1, WORD // lanes), 0, -1) if blocks % n == 0)


@irdl_op_definition
class PackBitsOp(GraphOp):
    """Words [N, positions..., C / c, bits] of x [N, C, positions..., b], integers of 8 or 16 bits.

    Word i of the last axis has bit i of c * b values at one position: those of c consecutive
    blocks, the first value in the lowest bit. c is the largest divisor of C for which c * b values
    fit in a word of 32 bits; unused bits are 0.

        // %x : tensor<1x4x56x56x16xui8>
        %p = graph.pack_bits %x {bits = 2} : tensor<1x56x56x2x2xui32>
    """

    name = "graph.pack_bits"
    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE

    x = operand_def(TensorType)
    bits = prop_def(Int)
    result = result_def(TensorType)

    def __init__(self, x: SSAValue | Operation, bits: int):
        super().__init__([x], {"bits": integer(bits)})

    @property
    def bit_count(self) -> int:
        """Number of bits used of each value."""
        return self.bits.value.data

    def infer(self) -> Sequence[AnyTensor]:
        """Return a tensor of 32-bit words."""
        shape, element = shape_of(self.x), element_type(self.x)
        if not is_quantized(element):
            raise VerifyException(f"packs integers of 8 or 16 bits, not {element}")
        assert isinstance(element, IntegerType)
        if len(shape) < 3 or not 0 < shape[-1] <= WORD or 0 in shape:
            raise VerifyException(
                f"{list(shape)} should be [N, C, positions..., b], b up to {WORD}"
            )
        if not 0 < self.bit_count <= element.bitwidth:
            raise VerifyException(f"cannot pack {self.bit_count} bits of {element}")
        words = shape[1] // blocks_in_word(shape[1], shape[-1])
        return (tensor((shape[0], *shape[2:-1], words, self.bit_count), WORD_TYPE),)

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        lanes = x.shape[-1]
        per = blocks_in_word(x.shape[1], lanes)
        placed: Array = np.moveaxis(x, 1, -2).reshape(
            x.shape[0], *x.shape[2:-1], -1, 1, per * lanes
        )
        bits = np.arange(self.bit_count)[:, None]
        numbers = cast("Array", placed.astype(np.int64) >> bits & 1)
        placed_bits = cast("Array", numbers << np.arange(per * lanes))
        return placed_bits.sum(-1)

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return a sum over the values of a word."""
        lanes = x.shape[-1]
        per = blocks_in_word(x.shape[1], lanes)
        p, q = te.reduce_axis(per, "p"), te.reduce_axis(lanes, "q")

        def body(n: te.Axis, *rest: te.Axis) -> te.Reduce:
            *places, word, bit = rest
            number = x[(n, word if per == 1 else word * per + p, *places, q)]
            chosen = bit if self.bit_count > 1 else None
            one = packed_bit(number, chosen, p if per > 1 else None, q, lanes)
            return te.sum(one, axis=[p, q] if per > 1 else [q])

        return te.compute(self.shape, body, name="pack")
