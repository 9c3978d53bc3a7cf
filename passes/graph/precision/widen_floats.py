"""Contractions of 16-bit floats as contractions of f32, where a CPU has no others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.cast import CastOp
from tcopt.dialects.graph.contraction import ContractionOp
from tcopt.dialects.graph.types import bytes_of, element_type, is_half, shape_of, tensor, type_of
from tcopt.dialects.intrinsics import find_dot
from tcopt.dialects.target import target_facts_of
from tcopt.support.pure_values import insert_once
from tcopt.support.remarks import remark
from tcopt.support.rewriting import rewrite

LEAST_USES = 2
"""Products that each element of an operand should be in, on average. An element of one product
alone is converted where it is loaded."""

FAR_USES = 16
"""The same for weights that the second level of cache does not hold: they are read twice as fast
in 16 bits."""


@dataclass
class WidenContraction(RewritePattern):
    """Multiply 16-bit floats in f32, each value being converted once.

        %y = graph.matmul %x, %w : tensor<64x32xf16>
    ->
        %a = graph.cast %x : tensor<64x64xf32>
        %b = graph.cast %w : tensor<64x32xf32>
        %c = graph.matmul %a, %b : tensor<64x32xf32>
        %y = graph.cast %c : tensor<64x32xf16>

    Attributes:
        capabilities: those of the target.
        near: bytes of weights that stay near.
    """

    capabilities: Collection[str]
    near: int

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ContractionOp, rewriter: PatternRewriter) -> None:
        element = element_type(op.operands[0])
        if not is_half(element):
            return
        if reason := self.reason_to_stay(op):
            remark(WidenContractionsPass.name, op, reason, missed=True)
            return
        kept = {k: v for k, v in op.properties.items() if k != "result_element"}
        operands = [insert_once(rewriter, CastOp(operand, f32)) for operand in op.operands]
        result = tensor(op.shape, f32)
        wide = type(op).create(operands=operands, result_types=[result], properties=kept)
        remark(WidenContractionsPass.name, op, f"products of {element} in f32")
        narrow = op.type.element_type
        rewriter.replace(op, wide if narrow == f32 else [wide, CastOp(wide, narrow)])

    def reason_to_stay(self, op: ContractionOp) -> str:
        """Why products are not widened; empty if they are."""
        elements = [element_type(operand) for operand in op.operands]
        if find_dot(self.capabilities, (elements[0], elements[1]), f32) is not None:
            return f"the target multiplies {elements[0]}"
        products = op.work() // 2
        for operand in op.operands:
            is_far = operand is op.weights and bytes_of(type_of(operand)) > self.near
            least = FAR_USES if is_far else LEAST_USES
            uses = products / max(prod(shape_of(operand)), 1)
            if uses < least:
                return f"elements are in {uses:.1f} products each, {least} are wanted"
        return ""


@dataclass(frozen=True)
class WidenContractionsPass(ModulePass):
    """Convert operands of contractions of 16-bit floats to f32, each value once.

    Products of 16-bit floats are summed in f32. A CPU without instructions for that converts
    each element wherever it is loaded, which costs as much as the products; here it is converted
    by what computes it, or at compile time. Sums are rounded as before, so no result changes.
    What comes later (layouts, packed weights, Winograd) finds contractions of f32.

        %w = graph.constant @w : tensor<64x64x3x3xf16>
        %y = graph.conv %x, %w : tensor<1x64x28x28xf16>
    ->
        %w = graph.constant @w : tensor<64x64x3x3xf16>
        %a = graph.cast %x : tensor<1x64x30x30xf32>
        %b = graph.cast %w : tensor<64x64x3x3xf32>
        %c = graph.conv %a, %b : tensor<1x64x28x28xf32>
        %y = graph.cast %c : tensor<1x64x28x28xf16>

    Operands stay where the target has dot products of their type, and where elements are in
    few products: reading a matrix for a single row takes longer than converting it.
    """

    name = "widen-contractions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_facts_of(op)
        # Threads convert what they load while they wait for memory.
        if target is not None and not target.lanes_are_threads:
            near = 0 if target.vectors is None else target.vectors.l2
            rewrite(op, [WidenContraction(target.capabilities, near)])
