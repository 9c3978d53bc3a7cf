"""Contractions of 16-bit floats as contractions of f32, where a CPU has no others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tcopt.dialects.graph.cast import CastOp
from tcopt.dialects.graph.contraction import ContractionOp
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.types import bytes_of, element_type, is_half, shape_of, tensor, type_of
from tcopt.dialects.intrinsics import find_dot
from tcopt.dialects.target import cpu_target_of
from tcopt.passes.graph.decompose import replace
from tcopt.support.remarks import remark

LEAST_USES = 2
"""Products that each element of an operand should be in, on average. An element of one product
alone is converted where it is loaded."""

FAR_USES = 16
"""The same for weights that the second level of cache does not hold: they are read twice as fast
in 16 bits."""


@dataclass(frozen=True)
class WidenContractions(ModulePass):
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
        target = cpu_target_of(op)
        if target is None:
            return
        for function in op.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                widening = _Widening(function.body.block, target.capabilities, target.l2.data)
                widening.run()


class _Widening:
    """The conversion of one function.

    Attributes:
        capabilities: those of the target.
        near: bytes of weights that stay near.
        wide: values in f32 by what they are made of.
    """

    def __init__(self, body: Block, capabilities: Collection[str], near: int):
        self.body = body
        self.capabilities = capabilities
        self.near = near
        self.wide: dict[SSAValue, SSAValue] = {}

    def run(self) -> None:
        """Convert what can be, in order."""
        for op in list(self.body.ops):
            if isinstance(op, ContractionOp) and is_half(element_type(op.operands[0])):
                reason = self._reason_to_stay(op)
                if reason:
                    remark("widen-contractions", op, reason, missed=True)
                else:
                    replace(op, self._widened(op))

    def _reason_to_stay(self, op: ContractionOp) -> str:
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

    def _widened(self, op: ContractionOp) -> list[Operation]:
        narrow = op.type.element_type
        kept = {k: v for k, v in op.properties.items() if k != "result_element"}
        operands = [self._wide(operand, op) for operand in op.operands]
        result = tensor(op.shape, f32)
        wide = type(op).create(operands=operands, result_types=[result], properties=kept)
        remark("widen-contractions", wide, f"products of {element_type(op.operands[0])} in f32")
        return [wide] if narrow == f32 else [wide, CastOp(wide, narrow)]

    def _wide(self, value: SSAValue, user: GraphOp) -> SSAValue:
        if value not in self.wide:
            cast = CastOp(value, f32)
            cast.location = user.location
            self.body.insert_op_before(cast, user)
            self.wide[value] = cast.results[0]
        return self.wide[value]
