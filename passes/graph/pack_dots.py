"""Storage of weights in groups for instructions that add several products at once."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from tcopt.dialects.graph.contraction import ContractionOp
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.types import element_type
from tcopt.dialects.intrinsics import Intrinsic, find_dot
from tcopt.dialects.target import CpuTargetAttr, GpuTargetAttr, cpu_target_of, gpu_target_of
from tcopt.support.remarks import remark


@dataclass(frozen=True)
class PackDotsPass(ModulePass):
    """Store terms of a sum that one instruction multiplies and adds side by side in weights.

    A dot product instruction (`dialects/intrinsics/`) takes a group of a row's terms, which lie
    side by side in data anyhow, and for each lane the same terms of a column. Weights are
    reordered at compile time by `fold-constants`; a sum whose terms are no whole groups gets
    zeros. What has no such form, or no instruction for its element types, stays.

        %p = graph.constant @p : tensor<4x768x32xbf16>
        %y = graph.packed_matmul %x, %p {columns = 100, result_element = f32} : ...
    ->
        %0 = graph.reshape %p : tensor<4x384x2x32xbf16>
        %1 = graph.transpose %0 {perm = [0, 1, 3, 2]} : tensor<4x384x32x2xbf16>
        %y = graph.packed_matmul %x, %1 {columns = 100, result_element = f32} : ...
    """

    name = "pack-dots"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = cpu_target_of(op) or gpu_target_of(op)
        if target is None:
            return
        for function in op.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                _pack(function.body.block, target)


def _pack(body: Block, target: CpuTargetAttr | GpuTargetAttr) -> None:
    """Rewrite the contractions of one function whose weights are made of constants."""
    known: set[SSAValue] = set()
    for op in list(body.ops):
        if isinstance(op, GraphOp) and all(operand in known for operand in op.operands):
            known.update(op.results)
        if isinstance(op, ContractionOp) and op.weights in known:
            dot = _dot_for(op, target)
            if dot is not None:
                _rewrite(op, dot, body)


def _dot_for(op: ContractionOp, target: CpuTargetAttr | GpuTargetAttr) -> Intrinsic | None:
    data, weights = (element_type(operand) for operand in op.operands)
    return find_dot(target.capabilities, (data, weights), op.sum_element())


def _rewrite(op: ContractionOp, dot: Intrinsic, body: Block) -> None:
    (group,) = dot.operands[1].shape
    new = op.in_groups(group)
    if new is None:
        remark("pack-dots", op, f"it has no form for groups of {group} terms", missed=True)
        return
    for each in new:
        each.location = op.location
        body.insert_op_before(each, op)
    remark("pack-dots", op, f"terms in groups of {group}, for {dot.name}")
    result = new[-1].results[0]
    result.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(result)
    op.detach()
    op.erase()
