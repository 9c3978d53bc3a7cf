"""Operands of convolutions and matrix products rounded to 16 bits."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.passes import ModulePass

from tcopt.dialects.graph.cast import CastOp
from tcopt.dialects.graph.contraction import ContractionOp
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.types import element_type
from tcopt.support.errors import PassFailedError
from tcopt.support.remarks import remark

_TYPES: dict[str, Attribute] = {"bf16": bf16, "f16": f16}


@dataclass(frozen=True)
class LowerPrecisionPass(ModulePass):
    """Round data and weights of contractions with constant weights; sums stay f32.

    Both operands of such an op are cast, each value once, and its result keeps its type:
    products are summed in f32, and what follows takes the sums unrounded. Constants are
    rounded at compile time by `fold-constants`. Other ops stay as they are.

        %w = graph.constant @w : tensor<64x10xf32>
        %y = graph.matmul %x, %w : tensor<4x10xf32>
        %z = graph.relu %y : tensor<4x10xf32>
    ->
        %w = graph.constant @w : tensor<64x10xf32>
        %a = graph.cast %x : tensor<4x64xbf16>
        %b = graph.cast %w : tensor<64x10xbf16>
        %y = graph.matmul %a, %b {result_element = f32} : tensor<4x10xf32>
        %z = graph.relu %y : tensor<4x10xf32>

    Options: `to`, the operands' type, `bf16` or `f16`.
    """

    name = "lower-precision"

    to: str = "bf16"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.to not in _TYPES:
            known = ", ".join(_TYPES)
            raise PassFailedError(f"lower-precision: to = '{self.to}' is none of {known}")
        for function in op.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                _Lowering(function.body.block, _TYPES[self.to]).run()


class _Lowering:
    """The conversion of one function.

    Attributes:
        known: values made of nothing but constants.
        rounded: casts by what they round.
    """

    def __init__(self, body: Block, element: Attribute):
        self.body = body
        self.element = element
        self.known: set[SSAValue] = set()
        self.rounded: dict[SSAValue, SSAValue] = {}

    def run(self) -> None:
        """Convert what can be, in order."""
        for op in list(self.body.ops):
            if isinstance(op, GraphOp) and all(operand in self.known for operand in op.operands):
                self.known.update(op.results)
            if isinstance(op, ContractionOp):
                self._convert(op)

    def _convert(self, op: ContractionOp) -> None:
        if any(element_type(value) != f32 for value in (*op.operands, *op.results)):
            remark("lower-precision", op, "its operands are not all f32", missed=True)
            return
        if op.weights not in self.known:
            remark("lower-precision", op, "no operand is a constant weight", missed=True)
            return
        new = op.on_operands([self._round(operand, op) for operand in op.operands])
        new.location = op.location
        self.body.insert_op_before(new, op)
        remark("lower-precision", new, f"products of {self.element}, summed in f32")
        new.results[0].name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(new.results[0])
        op.detach()
        op.erase()

    def _round(self, value: SSAValue, user: GraphOp) -> SSAValue:
        if value not in self.rounded:
            cast = CastOp(value, self.element)
            cast.location = user.location
            self.body.insert_op_before(cast, user)
            self.rounded[value] = cast.results[0]
        return self.rounded[value]
