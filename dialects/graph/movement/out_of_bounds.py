"""Range checks of a model's data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType, i1
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import (
    Extent,
    FusionKind,
    extent_attr,
    extent_in,
)
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    as_extent,
    element_type,
    shape_of,
    tensor,
)
from tcopt.dialects.te import api as te
from tcopt.dialects.te.dtypes import is_unsigned
from tcopt.dialects.te.scalar import width_of
from tcopt.support.arithmetic.sizes import lower_bound, maximum, minimum, upper_bound


@irdl_op_definition
class OutOfBoundsOp(GraphOp):
    """Whether any element of x, a tensor of integers, is below `low` or above `high`.

    The limits may be sizes.

        %refused = graph.out_of_bounds %indices {low = -100, high = 99} : tensor<1xi1>

    Operators clamp out-of-bounds indices to the nearest element. A program reports them by an
    additional result of the model, computed by this op ("graph.checks").
    """

    name = "graph.out_of_bounds"

    FUSION: ClassVar[FusionKind] = FusionKind.REDUCTION

    x = operand_def(TensorType)
    low = prop_def(Extent)
    high = prop_def(Extent)
    result = result_def(TensorType)

    def __init__(self, x: SSAValue | Operation, *, low: int, high: int):
        super().__init__([x], {"low": extent_attr(low), "high": extent_attr(high)})

    def infer(self) -> Sequence[AnyTensor]:
        """Return a single i1."""
        if not isinstance(element_type(self.x), IntegerType) or element_type(self.x) == i1:
            raise VerifyException(f"takes integers, not {self.x.type}")
        if 0 in shape_of(self.x):
            raise VerifyException(f"{self.x.type} has no elements")
        return (tensor((1,), i1),)

    def work(self) -> int:
        """Return the operation count: two comparisons for each element."""
        return 2 * math.prod(shape_of(self.x))

    def _limits(self) -> tuple[int, int]:
        """Return the limits, clamped to the range of x's type."""
        dtype = element_type(self.x)
        bits = width_of(dtype)
        least, most = (0, 2**bits - 1) if is_unsigned(dtype) else (-(2 ** (bits - 1)), None)
        most = 2 ** (bits - 1) - 1 if most is None else most
        low, high = maximum(extent_in(self.low), least), minimum(extent_in(self.high), most)
        return as_extent(low), as_extent(high)

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.array([(x < extent_in(self.low)).any() or (x > extent_in(self.high)).any()])

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return one reduction over all elements."""
        low, high = self._limits()
        axes = [te.reduce_axis(extent, f"k{d}") for d, extent in enumerate(x.shape)]

        def body(i: te.Axis) -> te.Reduce | te.Expr:
            value = x[tuple(axes)]
            if lower_bound(low) > upper_bound(high):
                refused = te.equal(value, value)
            else:
                refused = te.any(value < te.const(low, x.dtype), value > te.const(high, x.dtype))
            return te.max(refused, axes) if axes else refused

        return te.compute((1,), body, name="out_of_bounds")
