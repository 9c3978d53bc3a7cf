"""Local response normalisation, on plain data and on channels in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import Float, Int, flag, integer, real
from tcopt.dialects.graph.core.stages import image_compute, widen
from tcopt.dialects.graph.core.types import Array, shape_of
from tcopt.dialects.graph.reduction.norm import NormalizationOp
from tcopt.dialects.te import api as te


@irdl_op_definition
class LrnOp(NormalizationOp):
    """Local response normalisation of [N, C, spatial...] over `size` neighbouring channels.

    The result is x / (bias + alpha / size * sum(x * x)) ** beta. With `blocked`, x is
    [N, C / c, spatial..., c]. Neighbours are then in the same block or in an adjacent one.
    """

    name = "graph.lrn"

    x = operand_def(TensorType)
    size = prop_def(Int)
    alpha = prop_def(Float, default_value=real(1e-4))
    beta = prop_def(Float, default_value=real(0.75))
    bias = prop_def(Float, default_value=real(1.0))
    blocked = opt_prop_def(UnitAttr)

    def __init__(
        self,
        x: SSAValue | Operation,
        *,
        size: int,
        alpha: float = 1e-4,
        beta: float = 0.75,
        bias: float = 1.0,
        blocked: bool = False,
    ):
        super().__init__(
            [x],
            {
                "size": integer(size),
                "alpha": real(alpha),
                "beta": real(beta),
                "bias": real(bias),
                "blocked": flag(blocked),
            },
        )

    def check_parameters(self) -> None:
        """Raise VerifyException unless there are channels, the size is positive, and windows do not
        extend beyond the adjacent blocks."""
        shape = shape_of(self.x)
        if len(shape) < 2 or self.size.value.data < 1:
            raise VerifyException("expects a channel dimension and a size of at least 1")
        if self.blocked is not None and (len(shape) < 3 or max(self.reach) > shape[-1]):
            raise VerifyException(f"expects blocks of at least {max(self.reach)} channels")

    @property
    def reach(self) -> tuple[int, int]:
        """Number of neighbouring channels before and after a channel."""
        size = self.size.value.data
        return (size - 1) // 2, size - 1 - (size - 1) // 2

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        if self.blocked is None:
            return self._normalize(x)
        lanes = np.moveaxis(x, -1, 2)
        plain = lanes.reshape(x.shape[0], -1, *x.shape[2:-1])
        return np.moveaxis(self._normalize(plain).reshape(lanes.shape), 2, -1)

    def _normalize(self, x: Array) -> Array:
        before, after = self.reach
        widths = [(0, 0), (before, after)] + [(0, 0)] * (x.ndim - 2)
        squares = np.pad(x * x, widths)
        total = sum(squares[:, k : k + x.shape[1]] for k in range(self.size.value.data))
        factor = self.alpha.value.data / self.size.value.data
        return x / (self.bias.value.data + factor * np.asarray(total)) ** self.beta.value.data

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return the sum of squares over neighbouring channels, then the quotient."""
        squares = self._squares(x) if self.blocked is None else self._squares_in_blocks(x)
        factor = self.alpha.value.data / self.size.value.data

        def body(*axes: te.Axis) -> te.Expr:
            total = squares[axes]
            bias = te.const(self.bias.value.data, total.dtype)
            base = total * te.const(factor, total.dtype) + bias
            if self.beta.value.data == 0.75:
                root = te.sqrt(base)
                power = root * te.sqrt(root)
            else:
                power = te.pow(base, te.const(self.beta.value.data, total.dtype))
            return te.cast(widen(x[axes]) / power, x.dtype)

        return image_compute(x.shape, body, "lrn")

    def _squares(self, x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis(self.size.value.data, "k")
        before = self.reach[0]

        def square(n: te.Axis, c: te.Axis, *places: te.Axis) -> Any:
            value = widen(x.read((n, c + k - before, *places), default=0))
            return te.sum(value * value, axis=k)

        return image_compute(x.shape, square, "squares")

    def _squares_in_blocks(self, x: te.Tensor) -> te.Tensor:
        """Sum the squares of neighbours, reading each from the two blocks that may contain it.

        Lanes outside a block read zero, so the sum of both reads is the neighbour, and indices stay
        linear.
        """
        block = x.shape[-1]
        before, after = self.reach

        def square(n: te.Axis, c: te.Axis, *rest: te.Axis) -> Any:
            *places, lane = rest

            def read(step: int, offset: int) -> te.Expr:
                at = (n, c + step, *places, lane + (offset - step * block))
                return widen(x.read(at, default=0))

            total: te.Expr | None = None
            for offset in range(-before, after + 1):
                value = read(0, offset)
                if offset:
                    value = value + read(-1 if offset < 0 else 1, offset)
                total = value * value if total is None else total + value * value
            return total

        return image_compute(x.shape, square, "squares")
