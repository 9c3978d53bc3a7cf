"""Quantised values: integers that represent real numbers by a scale and a zero point.

`real = (integer - zero) * scale`, where scale and zero point broadcast against the integers: they
are scalars, or have the extent of one axis. *Centred* integers already have the zero point
subtracted: `real = integer * scale`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType, UnitAttr, f32, i16, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import flag
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    broadcast_shapes,
    element_type,
    integer_range,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.elementwise.base import ElementwiseOp
from tcopt.dialects.te import api as te
from tcopt.dialects.te.expr import Const
from tcopt.support.arithmetic.intervals import Range


def is_quantized(element: Attribute) -> bool:
    """Whether an element type is an 8-bit or 16-bit integer, as quantised values are."""
    return isinstance(element, IntegerType) and element.bitwidth in (8, 16)


def centred_type(element: Attribute) -> Attribute:
    """Return the type that holds all differences of two integers of a type."""
    assert isinstance(element, IntegerType)
    return i16 if element.bitwidth == 8 else i32


class QuantizerOp(ElementwiseOp, ABC):
    """Base class of quantisers to the zero point's type: round to nearest even and saturate.

    A nan becomes the smallest integer.

    With `centered`, the zero point is not added, but the limits are those of the sum with it.
    """

    x = operand_def(TensorType)
    scale = operand_def(TensorType)
    zero = operand_def(TensorType)
    centered = opt_prop_def(UnitAttr)

    def __init__(
        self,
        x: SSAValue | Operation,
        scale: SSAValue | Operation,
        zero: SSAValue | Operation,
        *,
        centered: bool = False,
    ):
        GraphOp.__init__(self, [x, scale, zero], {"centered": flag(centered)})

    @property
    def is_centered(self) -> bool:
        """Whether the zero point is subtracted from the result."""
        return self.centered is not None

    def infer(self) -> Sequence[AnyTensor]:
        """Return the broadcast shape, with the zero point's type or one that holds its
        differences."""
        element = element_type(self.zero)
        if not is_quantized(element):
            raise VerifyException(f"quantises to integers of 8 or 16 bits, not to {element}")
        if element_type(self.scale) != f32:
            raise VerifyException(f"the scale should be f32, got {element_type(self.scale)}")
        self.check_domain(self.x)
        shape = broadcast_shapes(*(shape_of(operand) for operand in self.operands))
        return (tensor(shape, centred_type(element) if self.is_centered else element),)

    @property
    def limits(self) -> Range:
        """Minimum and maximum of the zero point's type."""
        return integer_range(element_type(self.zero))

    def scaled(self, x: Any, scale: Any) -> Any:
        """Return the scaled value before rounding, for an array or an expression."""
        raise NotImplementedError

    def compute(self, x: Array, scale: Array, zero: Array) -> Array:
        """Evaluate the op with numpy."""
        low, high = self.limits
        value = np.rint(self.scaled(x.astype(np.float32), scale))
        offset = zero.astype(np.float32)
        if self.is_centered:
            return np.fmin(np.fmax(value, low - offset), high - offset)
        return np.fmin(np.fmax(value + offset, low), high)

    def expression(self, x: te.Expr, scale: te.Expr, zero: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        value, offset = self.scaled(te.cast(x, f32), scale), te.cast(zero, f32)
        low, high = (te.const(limit, f32) for limit in self.limits)
        if isinstance(offset, Const):
            # If the limits are constant integers, clamping first is equivalent, and the conversion
            # rounds.
            low, high = (te.const(limit - offset.value, f32) for limit in self.limits)
            rounded = te.cast(te.round(te.fmin(te.fmax(value, low), high)), i32)
            return rounded if self.is_centered else rounded + te.cast(zero, i32)
        value = te.round(value)
        if self.is_centered:
            low, high = low - offset, high - offset
        else:
            value = value + offset
        return te.cast(te.fmin(te.fmax(value, low), high), i32)


@irdl_op_definition
class QuantizeOp(QuantizerOp):
    """round(x / scale) + zero (ONNX QuantizeLinear)."""

    name = "graph.quantize"

    def scaled(self, x: Any, scale: Any) -> Any:
        """Return `x / scale`, which ONNX rounds."""
        return x / scale


@irdl_op_definition
class RequantizeOp(QuantizerOp):
    """round(x * scale) + zero: requantise sums of products to the integers of the next layer.

    The scale is that of the products divided by that of the result.
    """

    name = "graph.requantize"

    def scaled(self, x: Any, scale: Any) -> Any:
        """Return `x * scale`."""
        return x * scale


@irdl_op_definition
class DequantizeOp(ElementwiseOp):
    """(x - zero) * scale, in f32 (ONNX DequantizeLinear)."""

    name = "graph.dequantize"
    NEEDS: ClassVar[str] = "dequantises integers of up to 32 bits"

    x = operand_def(TensorType)
    scale = operand_def(TensorType)
    zero = operand_def(TensorType)

    def __init__(
        self, x: SSAValue | Operation, scale: SSAValue | Operation, zero: SSAValue | Operation
    ):
        GraphOp.__init__(self, [x, scale, zero])

    @property
    def is_folded_early(self) -> bool:
        """False: passes match the integers of a bias and their scale, so even a small one is
        kept."""
        return False

    def infer(self) -> Sequence[AnyTensor]:
        """Return the broadcast shape in f32."""
        element = element_type(self.x)
        if not is_quantized(element) and element != i32:
            raise VerifyException(f"{self.NEEDS}, not {element}")
        if element_type(self.zero) != element:
            raise VerifyException(f"the zero point should be {element}")
        if element_type(self.scale) != f32:
            raise VerifyException(f"the scale should be f32, got {element_type(self.scale)}")
        shape = broadcast_shapes(*(shape_of(operand) for operand in self.operands))
        return (tensor(shape, f32),)

    def compute(self, x: Array, scale: Array, zero: Array) -> Array:
        """Evaluate the op with numpy."""
        return (x.astype(np.int32) - zero.astype(np.int32)).astype(np.float32) * scale

    def expression(self, x: te.Expr, scale: te.Expr, zero: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.cast(te.cast(x, i32) - te.cast(zero, i32), f32) * scale
