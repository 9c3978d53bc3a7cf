"""Normalisations by computed or given statistics."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import Float, FusionKind, Int, integer, real
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.stages import (
    Indices,
    image_compute,
    read_broadcast,
    reciprocal,
    reduce_stage,
    widen,
)
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    broadcast_shapes,
    element_type,
    is_float,
    normalize_axis,
    shape_of,
    type_of,
)
from tcopt.dialects.graph.elementwise.arithmetic import AddOp, MulOp, SubOp
from tcopt.dialects.graph.elementwise.base import same_element_type
from tcopt.dialects.graph.elementwise.functions import RsqrtOp
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.te import api as te


class NormalizationOp(GraphOp, ABC):
    """Base class of float ops that rescale the first operand by statistics and keep its type."""

    FUSION: ClassVar[FusionKind] = FusionKind.REDUCTION

    x = operand_def(TensorType)
    result = result_def(TensorType)

    def infer(self) -> Sequence[AnyTensor]:
        """Return the first operand's type."""
        if not is_float(element_type(self.x)):
            raise VerifyException(f"expects floating-point elements, got {element_type(self.x)}")
        same_element_type(*self.operands)
        self.check_parameters()
        return (type_of(self.x),)

    def check_parameters(self) -> None:
        """Raise VerifyException if other operands or attributes do not match the first operand."""

    def work(self) -> int:
        """Return the operation count: a few passes over the data."""
        return 4 * math.prod(self.shape)

    @property
    def exceeds_halves(self) -> bool:
        """True: statistics are sums, which may exceed 16 bits."""
        return True


class TrailingNormOp(NormalizationOp, ABC):
    """Normalisation over the axes from `axis` to the last."""

    x = operand_def(TensorType)
    scale = operand_def(TensorType)
    axis = prop_def(Int, default_value=integer(-1))
    epsilon = prop_def(Float, default_value=real(1e-5))

    @property
    def place(self) -> int:
        """The first normalised axis, non-negative."""
        return normalize_axis(self.axis.value.data, len(shape_of(self.x)))

    @property
    def axes(self) -> tuple[int, ...]:
        """The normalised axes."""
        return tuple(range(self.place, len(shape_of(self.x))))

    @property
    def reduced_axes(self) -> tuple[int, ...]:
        """The normalised axes."""
        return self.axes

    def check_parameters(self) -> None:
        """Raise VerifyException unless scale and bias broadcast to the operand."""
        shape = shape_of(self.x)
        normalize_axis(self.axis.value.data, len(shape))
        for parameter in self.operands[1:]:
            if broadcast_shapes(shape, shape_of(parameter)) != shape:
                raise VerifyException(f"{parameter.type} does not broadcast to {self.x.type}")


@irdl_op_definition
class LayerNormOp(TrailingNormOp):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over trailing axes.

    Scale and the optional bias broadcast to x.
    """

    name = "graph.layer_norm"

    x = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = opt_operand_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        scale: SSAValue | Operation,
        bias: SSAValue | Operation | None = None,
        *,
        axis: int = -1,
        epsilon: float = 1e-5,
    ):
        value = SSAValue.get(x)
        place = normalize_axis(axis, len(shape_of(value)))
        operands = [value, scale] if bias is None else [value, scale, bias]
        super().__init__(operands, {"axis": integer(place), "epsilon": real(epsilon)})

    def compute(self, x: Array, scale: Array, bias: Array | None = None) -> Array:
        """Evaluate the op with numpy."""
        centred = x - np.mean(x, axis=self.axes, keepdims=True)
        variance = np.mean(centred * centred, axis=self.axes, keepdims=True)
        result = centred / np.sqrt(variance + self.epsilon.value.data) * scale
        return result if bias is None else result + bias

    def tensor_expression(
        self, x: te.Tensor, scale: te.Tensor, bias: te.Tensor | None = None
    ) -> te.Tensor:
        """Return stages for the sum, the mean, the sum of squared differences and the result."""
        place, count = self.place, math.prod(x.shape[self.place :])
        total = reduce_stage(x.shape, self.axes, te.sum, lambda at: widen(x[tuple(at)]), "sum")
        mean = te.compute(
            total.shape, lambda *axes: total[axes] * reciprocal(count, total.dtype), name="mean"
        )

        def centred(at: Indices) -> te.Expr:
            return widen(x[tuple(at)]) - mean[tuple(at[:place])]

        def square(at: Indices) -> te.Expr:
            return centred(at) * centred(at)

        squares = reduce_stage(x.shape, self.axes, te.sum, square, "variance")
        inverse = inverse_deviation(squares, count, self.epsilon.value.data)

        def body(*axes: te.Axis) -> te.Expr:
            value = centred(axes) * inverse[axes[:place]] * widen(read_broadcast(scale, axes))
            if bias is not None:
                value = value + widen(read_broadcast(bias, axes))
            return te.cast(value, x.dtype)

        return te.compute(x.shape, body, name="layer_norm")


@irdl_op_definition
class RmsNormOp(TrailingNormOp):
    """x / sqrt(mean(x * x) + epsilon) * scale over trailing axes."""

    name = "graph.rms_norm"

    def __init__(
        self,
        x: SSAValue | Operation,
        scale: SSAValue | Operation,
        *,
        axis: int = -1,
        epsilon: float = 1e-5,
    ):
        value = SSAValue.get(x)
        place = normalize_axis(axis, len(shape_of(value)))
        super().__init__([value, scale], {"axis": integer(place), "epsilon": real(epsilon)})

    def compute(self, x: Array, scale: Array) -> Array:
        """Evaluate the op with numpy."""
        square = np.mean(x * x, axis=self.axes, keepdims=True)
        return x / np.sqrt(square + self.epsilon.value.data) * scale

    def tensor_expression(self, x: te.Tensor, scale: te.Tensor) -> te.Tensor:
        """Return stages for the sum of squares and the result."""
        place, count = self.place, math.prod(x.shape[self.place :])

        def square(at: Indices) -> te.Expr:
            value = widen(x[tuple(at)])
            return value * value

        squares = reduce_stage(x.shape, self.axes, te.sum, square, "squares")
        inverse = inverse_deviation(squares, count, self.epsilon.value.data)

        def body(*axes: te.Axis) -> te.Expr:
            value = widen(x[axes]) * inverse[axes[:place]] * widen(read_broadcast(scale, axes))
            return te.cast(value, x.dtype)

        return te.compute(x.shape, body, name="rms_norm")


def per_channel(parameter: Array, rank: int) -> Array:
    """Reshape a vector over channels to broadcast against [N, C, spatial...]."""
    return parameter.reshape(-1, *(1,) * (rank - 2))


class ChannelNormOp(NormalizationOp, ABC):
    """Normalisation of [N, C, spatial...] whose parameters are vectors over channels."""

    x = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)
    epsilon = prop_def(Float, default_value=real(1e-5))

    def check_parameters(self) -> None:
        """Raise VerifyException unless every parameter is a vector over the channels."""
        shape = shape_of(self.x)
        if len(shape) < 2:
            raise VerifyException("expects a batch and a channel dimension")
        for parameter in self.operands[1:]:
            if shape_of(parameter) != (shape[1],):
                raise VerifyException(
                    f"parameter {parameter.type} is not a vector over {shape[1]} channels"
                )


@irdl_op_definition
class BatchNormOp(ChannelNormOp):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, with given statistics."""

    name = "graph.batch_norm"
    FUSION: ClassVar[FusionKind] = FusionKind.INJECTIVE
    ELEMENTWISE: ClassVar[bool] = True

    x = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)
    mean = operand_def(TensorType)
    variance = operand_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        scale: SSAValue | Operation,
        bias: SSAValue | Operation,
        mean: SSAValue | Operation,
        variance: SSAValue | Operation,
        *,
        epsilon: float = 1e-5,
    ):
        super().__init__([x, scale, bias, mean, variance], {"epsilon": real(epsilon)})

    def decompose(self) -> Sequence[Operation] | None:
        """Return x * factor + shift, both of which depend only on the parameters."""
        element = element_type(self.x)
        column = (shape_of(self.x)[1], *(1,) * (len(shape_of(self.x)) - 2))
        epsilon = ConstantOp.literal(self.epsilon.value.data, element)
        spread = AddOp(self.variance, epsilon)
        inverse = RsqrtOp(spread)
        factor = MulOp(self.scale, inverse)
        moved = MulOp(self.mean, factor)
        shift = SubOp(self.bias, moved)
        factors, shifts = ReshapeOp(factor, column), ReshapeOp(shift, column)
        scaled = MulOp(self.x, factors)
        result = AddOp(scaled, shifts)
        return (epsilon, spread, inverse, factor, moved, shift, factors, shifts, scaled, result)

    def compute(self, x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
        """Evaluate the op with numpy."""
        factor = scale / np.sqrt(variance + self.epsilon.value.data)
        rank = x.ndim
        return x * per_channel(factor, rank) + per_channel(bias - mean * factor, rank)

    def tensor_expression(
        self,
        x: te.Tensor,
        scale: te.Tensor,
        bias: te.Tensor,
        mean: te.Tensor,
        variance: te.Tensor,
    ) -> te.Tensor:
        """Return one elementwise stage."""
        epsilon = self.epsilon.value.data

        def body(*axes: te.Axis) -> te.Expr:
            c = axes[1]
            spread = widen(variance[c])
            factor = widen(scale[c]) * te.rsqrt(spread + te.const(epsilon, spread.dtype))
            value = (widen(x[axes]) - widen(mean[c])) * factor + widen(bias[c])
            return te.cast(value, x.dtype)

        return image_compute(x.shape, body, "batch_norm")


@irdl_op_definition
class GroupNormOp(ChannelNormOp):
    """Normalisation over each of `groups` channel groups and all of space, for each example."""

    name = "graph.group_norm"

    groups = prop_def(Int)

    def __init__(
        self,
        x: SSAValue | Operation,
        scale: SSAValue | Operation,
        bias: SSAValue | Operation,
        *,
        groups: int,
        epsilon: float = 1e-5,
    ):
        super().__init__([x, scale, bias], {"groups": integer(groups), "epsilon": real(epsilon)})

    def check_parameters(self) -> None:
        """Raise VerifyException unless the channels split into the groups."""
        super().check_parameters()
        channels, groups = shape_of(self.x)[1], self.groups.value.data
        if groups < 1 or channels % groups:
            raise VerifyException(f"{channels} channels do not split into {groups} groups")

    def compute(self, x: Array, scale: Array, bias: Array) -> Array:
        """Evaluate the op with numpy."""
        return group_normalize(x, scale, bias, self.groups.value.data, self.epsilon.value.data)

    def tensor_expression(self, x: te.Tensor, scale: te.Tensor, bias: te.Tensor) -> te.Tensor:
        """Return stages for the sum, the mean, the sum of squared differences and the result."""
        epsilon = self.epsilon.value.data
        return group_norm_stages(x, scale, bias, self.groups.value.data, epsilon)


@irdl_op_definition
class InstanceNormOp(ChannelNormOp):
    """Normalisation over space, for each example and channel."""

    name = "graph.instance_norm"

    def __init__(
        self,
        x: SSAValue | Operation,
        scale: SSAValue | Operation,
        bias: SSAValue | Operation,
        *,
        epsilon: float = 1e-5,
    ):
        super().__init__([x, scale, bias], {"epsilon": real(epsilon)})

    @property
    def reduced_axes(self) -> tuple[int, ...]:
        """The spatial axes."""
        return tuple(range(2, len(self.shape)))

    def compute(self, x: Array, scale: Array, bias: Array) -> Array:
        """Evaluate the op with numpy."""
        return group_normalize(x, scale, bias, x.shape[1], self.epsilon.value.data)

    def tensor_expression(self, x: te.Tensor, scale: te.Tensor, bias: te.Tensor) -> te.Tensor:
        """Return stages for the sum, the mean, the sum of squared differences and the result."""
        return group_norm_stages(x, scale, bias, x.shape[1], self.epsilon.value.data)


def group_normalize(x: Array, scale: Array, bias: Array, groups: int, epsilon: float) -> Array:
    """Normalise x [N, C, spatial...] over each group of channels, then scale and shift."""
    parts = x.reshape(x.shape[0], groups, -1)
    centred = parts - parts.mean(axis=2, keepdims=True)
    variance = np.mean(centred * centred, axis=2, keepdims=True)
    result = (centred / np.sqrt(variance + epsilon)).reshape(x.shape)
    return result * per_channel(scale, x.ndim) + per_channel(bias, x.ndim)


def inverse_deviation(squares: te.Tensor, count: int, epsilon: float) -> te.Tensor:
    """Return a stage 1 / sqrt(squares / count + epsilon)."""
    dtype = squares.dtype

    def body(*axes: te.Axis) -> te.Expr:
        return te.rsqrt(squares[axes] * reciprocal(count, dtype) + te.const(epsilon, dtype))

    return te.compute(squares.shape, body, name="inverse_deviation")


def group_norm_stages(
    x: te.Tensor, scale: te.Tensor, bias: te.Tensor, groups: int, epsilon: float
) -> te.Tensor:
    """Return stages that normalise x [N, C, spatial...] over groups of channels."""
    n, channels, *space = x.shape
    size = channels // groups
    count = size * math.prod(space)
    # Iteration space [N, groups, channels of a group, spatial...]; single channels have no axis.
    inner = [size] if size > 1 else []
    shape = (n, groups, *inner, *space)
    axes = tuple(range(2, len(shape)))

    def read(at: Indices) -> te.Expr:
        batch, group, *rest = at
        if inner:
            channel, *rest = rest
            group = group * size + channel
        return widen(x[(batch, group, *rest)])

    total = reduce_stage(shape, axes, te.sum, read, "sum")
    mean = te.compute(
        total.shape, lambda *at: total[at] * reciprocal(count, total.dtype), name="mean"
    )

    def square(at: Indices) -> te.Expr:
        value = read(at) - mean[tuple(at[:2])]
        return value * value

    squares = reduce_stage(shape, axes, te.sum, square, "variance")
    inverse = inverse_deviation(squares, count, epsilon)

    def body(b: te.Axis, c: te.Axis, *places: te.Axis) -> te.Expr:
        group = c // size if size > 1 else c
        value = (widen(x[(b, c, *places)]) - mean[b, group]) * inverse[b, group]
        return te.cast(value * widen(scale[c]) + widen(bias[c]), x.dtype)

    return image_compute(x.shape, body, "group_norm")
