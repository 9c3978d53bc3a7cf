"""Computation on 16-bit floats in f32, which is kept between ops."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import (
    bytes_of,
    element_type,
    is_half,
    shape_of,
    tensor,
    type_of,
)
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.intrinsics import find_dot
from tcopt.dialects.target import target_facts_of
from tcopt.support.accuracy import ACCURACIES, DEFAULT, FAST
from tcopt.support.arithmetic.sizes import upper_bound
from tcopt.support.errors import PassFailedError
from tcopt.support.ir.pure_values import insert_once
from tcopt.support.ir.rewriting import erase_unused, function_bodies, rewrite
from tcopt.support.remarks import remark

LEAST_USES = 2
"""Minimum average number of products of an operand's element for widening it in advance; otherwise
it is converted when it is loaded."""

FAR_USES = 16
"""The same minimum for weights that do not fit L2: 16-bit weights load twice as fast."""


@dataclass
class Roundings:
    """16-bit values that round f32 values, made by the patterns of one run.

    Attributes:
        casts: the rounding ops by result, in program order.
        keeps: whether later ops read the values before rounding.
    """

    keeps: bool
    casts: dict[SSAValue, CastOp] = field(default_factory=dict[SSAValue, CastOp])

    def wide(self, value: SSAValue, rewriter: PatternRewriter) -> SSAValue:
        """Return a value in f32, as it was before rounding if that is kept."""
        if value in self.casts and self.keeps:
            return self.casts[value].x
        return insert_once(rewriter, CastOp(value, f32))

    def rounded(self, op: GraphOp, narrow: GraphOp) -> list[CastOp]:
        """Return the casts of an op's results to the types of the op that it replaces."""
        made: list[CastOp] = []
        for result, old in zip(op.results, narrow.results, strict=True):
            if result.type != old.type:
                cast = CastOp(result, type_of(old).element_type)
                self.casts[cast.result] = cast
                made.append(cast)
        return made


@dataclass
class WidenOp(RewritePattern):
    """Compute an op on 16-bit floats in f32, and round the results for users that need 16 bits.

        %p = graph.mul %x, %x : tensor<2x64xf16>
        %y = graph.reduce<sum> %p {axes = [1]} : tensor<2xf16>
    ->
        %a = graph.cast %x : tensor<2x64xf32>
        %p = graph.mul %a, %a : tensor<2x64xf32>
        %b = graph.reduce<sum> %p {axes = [1]} : tensor<2xf32>
        %y = graph.cast %b : tensor<2xf16>

    Ops that only move, select or compare elements are widened if their operands were.
    """

    roundings: Roundings

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GraphOp, rewriter: PatternRewriter) -> None:
        if isinstance(op, ContractionOp | ConstantOp) or op.results[0] in self.roundings.casts:
            return
        halves = [value for value in op.operands if is_half(element_type(value))]
        follows = any(value in self.roundings.casts for value in halves)
        if not halves or not (follows or (op.exceeds_halves and is_used(op))):
            return
        types = [
            tensor(shape_of(value), f32) if is_half(element_type(value)) else type_of(value)
            for value in op.results
        ]
        if isinstance(op, CastOp):
            # Conversions in the model itself round.
            types = [op.type]
        wide = type(op).create(
            operands=[
                self.roundings.wide(value, rewriter) if value in halves else value
                for value in op.operands
            ],
            result_types=types,
            properties=op.properties,
        )
        if not _fits(wide):
            wide.erase()
            return
        remark(WidenFloatsPass.name, op, "computed in f32")
        casts = self.roundings.rounded(wide, op)
        rounded = {cast.x: cast.result for cast in casts}
        results = [rounded.get(value, value) for value in wide.results]
        rewriter.replace(op, [wide, *casts], results)


def is_used(op: GraphOp) -> bool:
    """Whether another op of the graph uses a result of an op."""
    return any(isinstance(use.operation, GraphOp) for value in op.results for use in value.uses)


def _fits(op: GraphOp) -> bool:
    """Whether an op's operand and result types are valid."""
    try:
        return [value.type for value in op.results] == list(op.infer())
    except VerifyException:
        return False


@dataclass
class WidenContraction(RewritePattern):
    """Multiply 16-bit floats in f32, with each value converted once.

        %y = graph.matmul %x, %w : tensor<64x32xf16>
    ->
        %a = graph.cast %x : tensor<64x64xf32>
        %b = graph.cast %w : tensor<64x32xf32>
        %c = graph.matmul %a, %b : tensor<64x32xf32>
        %y = graph.cast %c : tensor<64x32xf16>

    Attributes:
        capabilities: capabilities of the target.
        near: maximum bytes of weights that fit L2.
        threads: whether lanes are threads, which convert what they load while they wait for memory.
        roundings: roundings that all patterns have made.
    """

    capabilities: Collection[str]
    near: int
    threads: bool
    roundings: Roundings

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ContractionOp, rewriter: PatternRewriter) -> None:
        element = element_type(op.operands[0])
        if not is_half(element):
            return
        if reason := self.reason_to_stay(op):
            remark(WidenFloatsPass.name, op, reason, missed=True)
            if self.roundings.keeps and is_half(op.type.element_type) and is_used(op):
                self._replace(op, list(op.operands), {"result_element": f32}, rewriter)
            return
        operands = [self.roundings.wide(operand, rewriter) for operand in op.operands]
        remark(WidenFloatsPass.name, op, f"products of {element} in f32")
        self._replace(op, operands, {}, rewriter)

    def _replace(
        self,
        op: ContractionOp,
        operands: Sequence[SSAValue],
        changed: Mapping[str, Attribute],
        rewriter: PatternRewriter,
    ) -> None:
        """Replace a contraction by one with an f32 result."""
        kept = {k: v for k, v in op.properties.items() if k != "result_element"}
        kept.update(changed)
        result = tensor(op.shape, f32)
        wide = type(op).create(operands=operands, result_types=[result], properties=kept)
        rewriter.replace(op, [wide, *self.roundings.rounded(wide, op)])

    def reason_to_stay(self, op: ContractionOp) -> str:
        """Return the reason not to widen a contraction; empty if it is widened."""
        if self.threads:
            return "threads convert what they load"
        elements = [element_type(operand) for operand in op.operands]
        if find_dot(self.capabilities, (elements[0], elements[1]), f32) is not None:
            return f"the target multiplies {elements[0]}"
        products = upper_bound(op.work()) // 2
        for operand in op.operands:
            is_far = operand is op.weights and bytes_of(type_of(operand)) > self.near
            least = FAR_USES if is_far else LEAST_USES
            uses = products / max(prod(type_of(operand).get_shape()), 1)
            if uses < least:
                return f"each element is used in {uses:.1f} products, fewer than {least}"
        return ""


@dataclass(frozen=True)
class WidenFloatsPass(ModulePass):
    """Compute on 16-bit floats in f32, and keep f32 between ops.

    Sums, products and functions of 16-bit floats are computed in f32, and their results stay f32
    for later ops: x * x, its mean and the square root of that do not overflow, and nothing is
    rounded in between. 16-bit values remain at inputs, weights and results of the model, at
    explicit conversions, and in operands of contractions that the target multiplies in 16 bits.

        %p = graph.mul %x, %x : tensor<2x64xf16>
        %m = graph.reduce<mean> %p {axes = [1]} : tensor<2xf16>
        %y = graph.sqrt %m : tensor<2xf16>
    ->
        %a = graph.cast %x : tensor<2x64xf32>
        %p = graph.mul %a, %a : tensor<2x64xf32>
        %m = graph.reduce<mean> %p {axes = [1]} : tensor<2xf32>
        %s = graph.sqrt %m : tensor<2xf32>
        %y = graph.cast %s : tensor<2xf16>

    Products of 16-bit floats are summed in f32. A CPU without instructions for that converts each
    element whenever it is loaded, which costs as much as the products; the pass converts it in the
    op that computes it, or at compile time. Later passes (layouts, packed weights, Winograd) then
    see f32 contractions.

        %w = graph.constant @w : tensor<64x64x3x3xf16>
        %y = graph.conv %x, %w : tensor<1x64x28x28xf16>
    ->
        %w = graph.constant @w : tensor<64x64x3x3xf16>
        %a = graph.cast %x : tensor<1x64x30x30xf32>
        %b = graph.cast %w : tensor<64x64x3x3xf32>
        %c = graph.conv %a, %b : tensor<1x64x28x28xf32>
        %y = graph.cast %c : tensor<1x64x28x28xf16>

    Operands are not converted if the target has dot products of their type, or if elements are used
    in few products: reading a matrix for a single row takes longer than converting it.

    Options:
        accuracy: `fast` rounds the result of every op to its type in the model.
    """

    name = "widen-floats"

    accuracy: str = DEFAULT

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.accuracy not in ACCURACIES:
            known = ", ".join(ACCURACIES)
            raise PassFailedError(f"{self.name}: accuracy = '{self.accuracy}' is none of {known}")
        target = target_facts_of(op)
        if target is None:
            return
        roundings = Roundings(keeps=self.accuracy != FAST)
        near = 0 if target.vectors is None else target.vectors.l2
        products = WidenContraction(target.capabilities, near, target.lanes_are_threads, roundings)
        rewrite(op, [products, WidenOp(roundings)] if roundings.keeps else [products], once=True)
        for body in function_bodies(op):
            erase_unused(body, CastOp)
