"""Folding of constant scales and shifts into weights and biases."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, cast

import ml_dtypes
import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp, LinearWeight
from tcopt.dialects.graph.core.types import Array, element_type, is_float
from tcopt.dialects.graph.elementwise.arithmetic import AddOp, DivOp, MulOp, SubOp
from tcopt.dialects.graph.elementwise.base import ElementwiseOp
from tcopt.passes.graph.folding.constants import Constants, EraseUnusedConstant
from tcopt.support.accuracy import ACCURACIES, DEFAULT, STRICT
from tcopt.support.arithmetic.reachability import Reaches
from tcopt.support.errors import PassFailedError
from tcopt.support.ir.rewriting import rewrite


@dataclass
class _WithConstants(RewritePattern):
    """Base of patterns that use the float constants of a module."""

    constants: Constants

    def known(self, value: SSAValue) -> Array | None:
        """Return the array of a float constant, or None."""
        if not isinstance(value.owner, ConstantOp) or not is_float(element_type(value)):
            return None
        return self.constants.value(value)

    def split(self, op: AddOp | MulOp) -> tuple[SSAValue, SSAValue, Array] | None:
        """Return the variable operand, the constant operand and the constant's value."""
        for variable, constant in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            value = self.known(constant)
            if value is not None and variable.type == op.type and self.known(variable) is None:
                return variable, constant, value
        return None

    def subtrahend(self, op: SubOp | DivOp) -> Array | None:
        """Return the value of the right operand if only that one is constant."""
        return self.known(op.rhs) if self.known(op.lhs) is None else None


class AddNegated(_WithConstants):
    """Replace the subtraction of a constant by an addition.

        %y = graph.sub %x, %c : tensor<1x8x4x4xf32>
    ->
        %n = graph.constant @c.negated : tensor<8x1x1xf32>
        %y = graph.add %x, %n : tensor<1x8x4x4xf32>
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SubOp, rewriter: PatternRewriter) -> None:
        value = self.subtrahend(op)
        if value is not None:
            negated = self.constants.like(-value, op.rhs, "negated")
            rewriter.replace(op, [negated, AddOp(op.lhs, negated)])


def _has_inverse(value: Array) -> bool:
    """Whether each element and its inverse are in the normal range, so that both are as exact."""
    size = np.abs(value)
    least = float(cast(Any, ml_dtypes.finfo)(value.dtype).smallest_normal)
    return bool(((size >= 4 * least) & (size <= 0.25 / least)).all())


def _is_exact_inverse(value: Array) -> bool:
    """Return whether all elements are powers of two, whose inverses are exact."""
    mantissa, _ = np.frexp(value.astype(np.float64))
    return bool((np.abs(mantissa) == 0.5).all())


def values_before_steps() -> Reaches[SSAValue]:
    """Return a predicate: whether a rounding error of a value can change a result by a whole step.

    That is the case if the value, possibly after elementwise and selecting ops, is an operand of an
    op with steps, such as a rounding or a conversion to integers.
    """
    return Reaches(_followed)


def _followed(value: SSAValue) -> list[SSAValue] | None:
    """Return the values to which rounding errors propagate; None if a value is rounded to steps."""
    found: list[SSAValue] = []
    for use in value.uses:
        op = use.operation
        if not isinstance(op, GraphOp):
            continue
        if op.has_steps:
            return None
        if isinstance(op, ElementwiseOp) or op.selects:
            found += op.results
    return found


@dataclass
class MultiplyByInverse(_WithConstants):
    """Replace the division of a tensor by a constant by a multiplication with its inverse.

    A product with an inverse is rounded twice. So a division is kept if its result is rounded to a
    step, unless the inverse is exact (powers of two). A division of a single element is kept too:
    nothing is gained, and it may be a quantisation scale.

        %y = graph.div %x, %c : tensor<1x8x4x4xf32>
    ->
        %i = graph.constant @c.inverse : tensor<8x1x1xf32>
        %y = graph.mul %x, %i : tensor<1x8x4x4xf32>

    Args:
        accuracy: `strict` allows exact inverses only.
        reaches_step: whether rounding errors of a value can change results by whole steps.
    """

    accuracy: str = DEFAULT
    reaches_step: Reaches[SSAValue] = field(default_factory=values_before_steps)

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DivOp, rewriter: PatternRewriter) -> None:
        value = self.subtrahend(op)
        if value is None or prod(op.shape) == 1 or not _has_inverse(value):
            return
        if not _is_exact_inverse(value) and (
            self.accuracy == STRICT or self.reaches_step(op.result)
        ):
            return
        inverse = self.constants.like(1 / value, op.rhs, "inverse")
        rewriter.replace(op, [inverse, MulOp(op.lhs, inverse)])


_CANCELLED = 2.0**-16
"""Relative size below which a sum of two constants counts as the residue of a cancellation."""


def _cancels(a: Array, b: Array) -> bool:
    """Return whether every sum of two constants cancels nearly all of them."""
    return bool((np.abs(a + b) < _CANCELLED * np.abs(a)).all())


def _is_contraction(value: SSAValue) -> bool:
    """Return whether a value is the result of a contraction; its terms may be reordered."""
    return isinstance(value.owner, GraphOp) and value.owner.linear_weight() is not None


@dataclass
class JoinShifts(_WithConstants):
    """Merge two additions of constants into one.

    Constants that cancel are kept: x + c - c rounds x to a multiple of the ulp of c. So are those
    before a rounding to steps, except after a contraction.

        %0 = graph.add %x, %a : tensor<1x8x4x4xf32>
        %y = graph.add %0, %b : tensor<1x8x4x4xf32>
    ->
        %c = graph.constant @a.joined : tensor<8x1x1xf32>
        %y = graph.add %x, %c : tensor<1x8x4x4xf32>

    Args:
        reaches_step: whether rounding errors of a value can change results by whole steps.
    """

    reaches_step: Reaches[SSAValue] = field(default_factory=values_before_steps)

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp, rewriter: PatternRewriter) -> None:
        outer = self.split(op)
        if outer is None or not isinstance(inner := outer[0].owner, AddOp):
            return
        parts = self.split(inner)
        if parts is None or not inner.result.has_one_use():
            return
        variable, shift, value = parts
        if _cancels(value, outer[2]):
            return
        if not _is_contraction(variable) and self.reaches_step(op.result):
            return
        total = self.constants.like(value + outer[2], shift, "joined")
        rewriter.replace(op, [total, AddOp(variable, total)])
        rewriter.erase(inner)


class ScaleWeights(_WithConstants):
    """Multiply the weights of a linear op by a scale instead of multiplying its result.

        %c = graph.conv %x, %w : tensor<1x8x4x4xf32>
        %y = graph.mul %c, %s : tensor<1x8x4x4xf32>
    ->
        %v = graph.constant @w.scaled : tensor<8x8x3x3xf32>
        %y = graph.conv %x, %v : tensor<1x8x4x4xf32>

    A constant that is added in between is multiplied as well.

        %c = graph.conv %x, %w : tensor<1x8x4x4xf32>
        %0 = graph.add %c, %a : tensor<1x8x4x4xf32>
        %y = graph.mul %0, %s : tensor<1x8x4x4xf32>
    ->
        %v = graph.constant @w.scaled : tensor<8x8x3x3xf32>
        %c = graph.conv %x, %v : tensor<1x8x4x4xf32>
        %b = graph.constant @a.scaled : tensor<8x1x1xf32>
        %y = graph.add %c, %b : tensor<1x8x4x4xf32>
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MulOp, rewriter: PatternRewriter) -> None:
        parts = self.split(op)
        if parts is None or not parts[0].has_one_use():
            return
        linear, _, scale = parts
        shifted = self.split(add) if isinstance(add := linear.owner, AddOp) else None
        if shifted is not None:
            linear = shifted[0]
        new = self.scaled(linear, scale) if linear.has_one_use() else None
        if new is None:
            return
        if shifted is None:
            new[-1].results[0].name_hint = None
            rewriter.replace(op, new)
        else:
            shift = self.constants.like(shifted[2] * scale, shifted[1], "scaled")
            rewriter.replace(op, [*new, shift, AddOp(new[-1], shift)])
            assert isinstance(add, AddOp)
            rewriter.erase(add)
        assert isinstance(linear.owner, GraphOp)
        rewriter.erase(linear.owner)

    def scaled(self, value: SSAValue, scale: Array) -> tuple[ConstantOp, GraphOp] | None:
        """Return the scaled weight and the op that produces the scaled value, or None."""
        op = value.owner
        linear = op.linear_weight() if isinstance(op, GraphOp) else None
        if linear is None or not isinstance(op, GraphOp):
            return None
        old = op.operands[linear.operand]
        weight, factors = self.known(old), _by_channel(scale, op, linear)
        if weight is None or factors is None:
            return None
        shape = [1] * weight.ndim
        shape[linear.axis] = -1
        new = op.clone()
        constant = self.constants.like(weight * factors.reshape(shape), old, "scaled")
        new.operands[linear.operand] = constant.result
        return constant, new


def _by_channel(scale: Array, op: GraphOp, linear: LinearWeight) -> Array | None:
    """Return one factor for each channel of an op's result; None if the scale varies otherwise."""
    rank = len(op.shape)
    aligned = scale.reshape((1,) * (rank - scale.ndim) + scale.shape)
    if any(extent != 1 for axis, extent in enumerate(aligned.shape) if axis != linear.channel):
        return None
    return np.broadcast_to(aligned.reshape(-1), (op.shape[linear.channel],))


@dataclass(frozen=True)
class FoldScalePass(ModulePass):
    """Fold constant per-channel scales into the weights of the op before, and merge shifts.

    A normalization after a convolution is reduced to one add, its bias. The pass works for every
    floating-point op that has a `linear_weight`, and reassociates sums. Divisions by constants
    become multiplications, and shifts are merged, unless a rounding to integers follows.

        %c = graph.conv %x, %w : tensor<1x8x4x4xf32>
        %b = graph.add %c, %bias : tensor<1x8x4x4xf32>
        %s = graph.mul %b, %scale : tensor<1x8x4x4xf32>
        %y = graph.add %s, %shift : tensor<1x8x4x4xf32>
    ->
        %w1 = graph.constant @w.scaled : ...                // w * scale
        %shift1 = graph.constant @shift.joined : ...        // bias * scale + shift
        %c = graph.conv %x, %w1 : tensor<1x8x4x4xf32>
        %y = graph.add %c, %shift1 : tensor<1x8x4x4xf32>

    Options:
        accuracy: `strict` keeps divisions by constants whose inverses are inexact.
    """

    name = "fold-scale"
    moves_values: ClassVar[bool] = True

    accuracy: str = DEFAULT

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.accuracy not in ACCURACIES:
            known = ", ".join(ACCURACIES)
            raise PassFailedError(f"{self.name}: accuracy = '{self.accuracy}' is none of {known}")
        constants = Constants(op)
        patterns = (
            AddNegated(constants),
            MultiplyByInverse(constants, self.accuracy),
            JoinShifts(constants),
            ScaleWeights(constants),
        )
        rewrite(op, [*patterns, EraseUnusedConstant()])
