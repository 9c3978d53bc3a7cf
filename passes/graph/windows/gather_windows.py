"""Rewriting of strided convolutions as matrix products of gathered windows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.contraction.conv import ConvOp
from tcopt.dialects.graph.core.types import element_type, shape_of
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.graph.packed.window_matmul import WindowMatmulOp
from tcopt.dialects.target import target_facts_of
from tcopt.support.arithmetic.sizes import is_fixed
from tcopt.support.ir.rewriting import rewrite
from tcopt.support.machines.machine import kernel_cycles
from tcopt.support.machines.thread_blocks import ThreadBlocks
from tcopt.support.remarks import remark

PART_OF_START = 2
"""Minimum arithmetic time of a convolution, as this fraction of the time of a launch, for which
wide loads pay off for computing the indices of the windows' elements."""


@dataclass
class GatherWindows(RewritePattern):
    """Multiply weights by the gathered windows of a strided convolution.

        %y = graph.conv %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x128x28x28xf32>
    ->
        %m = graph.reshape %w : tensor<1x128x576xf32>
        %y = graph.window_matmul %x, %m {kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]}
            : tensor<1x128x28x28xf32>

    Attributes:
        threads: threads of the device.
    """

    threads: ThreadBlocks

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConvOp, rewriter: PatternRewriter) -> None:
        if not self._gains(op):
            return
        window, (outputs, *rest) = op.window, shape_of(op.w)
        remark(GatherWindowsPass.name, op, "a matrix product of its windows")
        weights = ReshapeOp(op.w, (1, outputs, math.prod(rest)))
        product = WindowMatmulOp(
            op.x,
            weights,
            kernel=window.kernel,
            strides=window.strides,
            pads=(*window.low, *window.high),
            dilations=window.dilations,
            result_element=op.result_element,
        )
        rewriter.replace(op, [weights, product])

    def _gains(self, op: ConvOp) -> bool:
        """Whether windows of an f32 convolution have gaps, and there are many products."""
        x, w = shape_of(op.x), shape_of(op.w)
        is_f32 = all(element_type(value) == f32 for value in op.operands)
        if not is_f32 or op.group_count > 1 or op.pad_value.value.data or 0 in op.shape:
            return False
        if not is_fixed((*x, *w)) or op.window.is_pointwise or max(op.window.strides) == 1:
            return False
        products = op.work() // 2
        busy = kernel_cycles(self.threads, products, 0, cores=self.threads.cores)
        return busy * PART_OF_START >= self.threads.start


@dataclass(frozen=True)
class GatherWindowsPass(ModulePass):
    """Rewrite strided f32 convolutions as products of weights and gathered windows.

    This applies to devices whose threads share memory. Threads that compute adjacent pixels of a
    strided convolution would read every second element of shared memory one by one, from half of
    its banks. In the matrix of the windows, these elements are adjacent, and vectors of them are
    loaded. Tensor cores read windows from images as they are, so other types are not changed.
    Neither are convolutions with few products, which are as fast as launches.

        %y = graph.conv %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]} : tensor<1x128x28x28xf32>
    ->
        %m = graph.reshape %w : tensor<1x128x576xf32>
        %y = graph.window_matmul %x, %m {kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]}
            : tensor<1x128x28x28xf32>
    """

    name = "gather-windows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_facts_of(op)
        threads = None if target is None else target.threads
        if threads is not None and threads.shared:
            rewrite(op, [GatherWindows(threads)])
