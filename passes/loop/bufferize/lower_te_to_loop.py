"""Lowering of tensor expressions to loop nests over buffers.

A walk by hand: host functions are lowered in order, with the buffers of their values.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tcopt.dialects import te
from tcopt.dialects.graph.control.scan import ScanOp
from tcopt.passes.loop.bufferize.host_lowering import HostLowering
from tcopt.passes.loop.bufferize.stage_nests import Rounding, lower_function


@dataclass(frozen=True)
class LowerTeToLoopPass(ModulePass):
    """Lower every `te.func` to loops, and the tensors of host functions to buffers.

    A stage becomes a serial loop nest around a block with its name; results are written to buffers
    that the caller provides.

        te.func @f(%x: tensor<8x4xf32>) -> tensor<8xf32> {
          %sum = te.compute "sum" [%i = 8] reduce [%k = 4] sum : tensor<8xf32> {
            %0 = te.read %x[%i, %k] : tensor<8x4xf32>
            te.yield %0 : f32
          }
          te.return %sum : tensor<8xf32>
        }
        %y = te.call @f(%x) : (tensor<8x4xf32>) -> tensor<8xf32>
    ->
        loop.func @f(%x: memref<8x4xf32>, %sum: memref<8xf32>) {
          loop.for %i = 0 to 8 {
            loop.for %k = 0 to 4 {
              loop.block "sum" (%vi: spatial 8 = %i, %vk: reduce 4 = %k) {
                loop.init {...store 0...}
                ...
        %y = memref.alloc() : memref<8xf32>
        loop.call @f(%x, %y) : memref<8x4xf32>, memref<8xf32>

    If a result is another stage with a border ("pad"), there is no separate nest for it: the inner
    stage is written to an offset in the result, and a `loop.border` fills the border.

    The results of the host function become arguments after its inputs, and the call that produces a
    result writes it there. A value that is returned twice, or is an input, is copied. Views become
    `memref.reinterpret_cast`, constants `loop.weight`. A `graph.scan` becomes an `scf.for` that
    contains the calls of its function on slices of the scanned values. A state has two slots: a
    step reads one and writes the other.

    Buffers have the sizes of their tensors. A host function with sizes gets an index argument for
    each, after its results. Offsets in a buffer that depend on sizes are computed from them.

    Tensor expressions are on real numbers; `fastmath` flags of the loops define the permitted
    roundings.

    Options:
        contract: whether sums and products get `fastmath<contract>`, which permits fused
            multiply-adds.
        reassoc: whether the ops that combine the terms of a reduction get `fastmath<reassoc>`;
            otherwise terms are combined in the order of the axes.
    """

    name = "lower-te-to-loop"

    contract: bool = True
    reassoc: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lowering = HostLowering(op)
        rounding = Rounding(self.contract, self.reassoc)
        for function in list(op.ops):
            if isinstance(function, te.FuncOp):
                Rewriter.replace_op(function, lower_function(function, rounding), [])
        steps = {s.step for s in op.walk() if isinstance(s, ScanOp)}
        for function in list(op.ops):
            if isinstance(function, func.FuncOp) and _has_tensors(function, steps):
                Rewriter.replace_op(function, lowering.lower(function), [])
        for step in steps:
            if step is not None:
                Rewriter.erase_op(step)


def _has_tensors(function: func.FuncOp, steps: set[func.FuncOp | None]) -> bool:
    type_ = function.function_type
    tensors = any(isinstance(t, TensorType) for t in (*type_.inputs.data, *type_.outputs.data))
    return tensors and bool(function.body.blocks) and function not in steps
