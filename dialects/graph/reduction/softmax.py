"""Softmax and its logarithm."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    prop_def,
)

from tcopt.dialects.graph.core.attributes import Int, integer
from tcopt.dialects.graph.core.stages import (
    Indices,
    reduce_stage,
    widen,
)
from tcopt.dialects.graph.core.types import (
    Array,
    normalize_axis,
    shape_of,
)
from tcopt.dialects.graph.reduction.norm import NormalizationOp
from tcopt.dialects.te import api as te


class SoftmaxLikeOp(NormalizationOp, ABC):
    """Base class of softmax and its logarithm over one axis."""

    axis = prop_def(Int, default_value=integer(-1))

    def __init__(self, x: SSAValue | Operation, *, axis: int = -1):
        value = SSAValue.get(x)
        place = normalize_axis(axis, len(shape_of(value)))
        super().__init__([value], {"axis": integer(place)})

    @property
    def place(self) -> int:
        """The axis, non-negative."""
        return normalize_axis(self.axis.value.data, len(shape_of(self.x)))

    @property
    def reduced_axes(self) -> tuple[int, ...]:
        """The axis whose elements sum to one."""
        return (self.place,)

    def check_parameters(self) -> None:
        """Raise VerifyException if the axis is out of range."""
        normalize_axis(self.axis.value.data, len(shape_of(self.x)))

    def others(self, axes: Indices) -> Any:
        """Return the indices other than the axis."""
        return (*axes[: self.place], *axes[self.place + 1 :])

    def maximum(self, x: te.Tensor) -> te.Tensor:
        """Return the maximum along the axis."""
        return reduce_stage(x.shape, (self.place,), te.max, lambda at: x[tuple(at)], "max")

    def total(self, x: te.Tensor, term: Callable[[Indices], te.Expr]) -> te.Tensor:
        """Return the sum of a term along the axis."""
        return reduce_stage(x.shape, (self.place,), te.sum, term, "sum")


@irdl_op_definition
class SoftmaxOp(SoftmaxLikeOp):
    """exp(x - max) / sum(exp(x - max)) over one axis."""

    name = "graph.softmax"

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        weights = np.exp(x - np.max(x, axis=self.place, keepdims=True))
        return weights / np.sum(weights, axis=self.place, keepdims=True)

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return stages for the maximum, exp, sum, one reciprocal per row, and the product."""
        top = self.maximum(x)
        weights = te.compute(
            x.shape,
            lambda *axes: te.exp(widen(x[axes]) - widen(top[self.others(axes)])),
            name="exp",
        )
        total = self.total(weights, lambda at: weights[tuple(at)])
        inverse = te.compute(
            total.shape,
            lambda *axes: te.const(1, total.dtype) / total[axes],
            name="inverse",
        )
        return te.compute(
            x.shape,
            lambda *axes: te.cast(weights[axes] * inverse[self.others(axes)], x.dtype),
            name="softmax",
        )


@irdl_op_definition
class LogSoftmaxOp(SoftmaxLikeOp):
    """The logarithm of softmax over one axis."""

    name = "graph.log_softmax"

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        shifted = x - np.max(x, axis=self.place, keepdims=True)
        return shifted - np.log(np.sum(np.exp(shifted), axis=self.place, keepdims=True))

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return stages for the maximum, the sum of exp, and the difference."""
        top = self.maximum(x)

        def shifted(at: Indices) -> te.Expr:
            return widen(x[tuple(at)]) - widen(top[self.others(at)])

        total = self.total(x, lambda at: te.exp(shifted(at)))
        return te.compute(
            x.shape,
            lambda *axes: te.cast(shifted(axes) - te.log(total[self.others(axes)]), x.dtype),
            name="log_softmax",
        )
