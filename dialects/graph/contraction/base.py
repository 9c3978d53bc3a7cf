"""Operators that sum products of two operands, and the precision of the sums."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Self

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import opt_prop_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.stages import widen
from tcopt.dialects.graph.core.types import Array, element_type, is_half, tensor
from tcopt.dialects.graph.elementwise.base import same_element_type
from tcopt.dialects.graph.elementwise.quantize import is_quantized
from tcopt.dialects.te import api as te


class ContractionOp(GraphOp, ABC):
    """Sum of products of data, the first operand, and weights, the second.

    Operands and result have one element type, unless `result_element` is set. Products of 16-bit
    floats are accumulated in f32; with `result_element = f32` the sums are not rounded afterwards.
    Integers of 8 and 16 bits, which may then differ in type, are summed in i32 with
    `result_element = i32`; the sums wrap around.
    """

    result_element = opt_prop_def(Attribute)

    @property
    def weights(self) -> SSAValue:
        """The operand that is constant in a layer of a network."""
        return self.operands[1]

    @property
    def stores_anywhere(self) -> bool:
        """Whether elements are completed in registers: sums are computed a tile at a time."""
        return True

    def sum_element(self) -> Attribute:
        """Return the result's element type; VerifyException if the operands cannot be summed in
        it."""
        wanted = self.result_element
        if wanted == i32 and all(is_quantized(element_type(x)) for x in self.operands):
            return i32
        element = same_element_type(*self.operands)
        if wanted is None or wanted == element:
            return element
        if wanted != f32 or not is_half(element):
            raise VerifyException(f"products of {element} cannot be summed in {wanted}")
        return wanted

    def widened(self, factor: te.Expr) -> te.Expr:
        """Convert a factor to the type in which products are summed."""
        return widen(te.cast(factor, i32) if self._sums_integers else factor)

    @property
    def _sums_integers(self) -> bool:
        return self.result_element == i32

    def compute_all(self, *arrays: Array) -> Sequence[Array]:
        """Evaluate the op with numpy; narrow integers in f64, in which their sums are exact."""
        if not self._sums_integers:
            return super().compute_all(*arrays)
        result = self.compute(*(array.astype(np.float64) for array in arrays))
        return (result.astype(np.int64),)

    @property
    def sums_shifts(self) -> bool:
        """Whether a constant added to all data adds the constant times the sum of a channel's
        weights (`linear_weight`) to each element of the result."""
        return self.linear_weight() is not None

    def on_operands(self, operands: Sequence[SSAValue]) -> Self:
        """Return the same op on operands of another element type, with an unchanged result type."""
        kept = {**self.properties}
        if element_type(operands[0]) != self.type.element_type:
            kept["result_element"] = self.type.element_type
        result = tensor(self.shape, self.type.element_type)
        return type(self).create(operands=operands, result_types=[result], properties=kept)
