"""Storage of constant right operands of matrix products in panels."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FixedBitwidthType, ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.layout import LayoutTransformOp
from tcopt.dialects.graph.matmul import MatmulOp
from tcopt.dialects.graph.packed_matmul import PackedMatmulOp
from tcopt.dialects.graph.quantize import is_quantized
from tcopt.dialects.graph.types import element_type, is_float, shape_of
from tcopt.dialects.intrinsics import byte_group
from tcopt.dialects.target import CpuTargetAttr, cpu_target_of, gpu_target_of
from tcopt.passes.graph.convert_layout import is_of_bytes
from tcopt.support.errors import PassFailedError
from tcopt.support.matmul_tiles import best_tile
from tcopt.support.remarks import remark


@dataclass(frozen=True)
class PackMatmulPass(ModulePass):
    """Store a constant right operand in panels as wide as a register tile of the product.

    A kernel then reads its weights as one stream, whatever the matrix's width. Weights are
    reordered at compile time by `fold-constants`; columns that do not fill a panel are
    padded with zeros.

        %w = graph.constant @w : tensor<768x100xf32>
        %y = graph.matmul %x, %w : tensor<128x100xf32>
    ->
        %p = graph.layout_transform %w {src = "KN", dst = "NK32n"} : tensor<4x768x32xf32>
        %y = graph.packed_matmul %x, %p {columns = 100} : tensor<128x100xf32>

    On a GPU that has dot products of bytes, matrices of 8-bit integers alone are packed, in one
    panel, so that neighbouring columns are neighbours.

    Options:
        width: columns of a panel; 0 takes what suits each product on the target.
    """

    name = "pack-matmul"

    width: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.width < 0:
            raise PassFailedError(f"pack-matmul: width = {self.width} is negative")
        target, gpu = cpu_target_of(op), gpu_target_of(op)
        has_dots = gpu is not None and byte_group(gpu.capabilities) > 0
        if target is None and not self.width and not has_dots:
            return
        for function in op.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                _Packing(function.body.block, target, self.width).run()


class _Packing:
    """The packing of one function's weights, each once for each width.

    Attributes:
        packed: panels by weight, width, and whether it is transposed.
        known: values made of nothing but constants.
    """

    def __init__(self, block: Block, target: CpuTargetAttr | None, width: int):
        self.block = block
        self.target = target
        self.width = width
        self.packed: dict[tuple[SSAValue, int, bool], SSAValue] = {}
        self.known: set[SSAValue] = set()

    def run(self) -> None:
        """Rewrite every product that has a constant right operand."""
        for op in list(self.block.ops):
            if isinstance(op, GraphOp) and all(operand in self.known for operand in op.operands):
                self.known.update(op.results)
            if isinstance(op, MatmulOp):
                width = self.panel_width(op)
                if isinstance(width, str):
                    remark("pack-matmul", op, width, missed=True)
                else:
                    self.pack(op, width)

    def panel_width(self, op: MatmulOp) -> int | str:
        """Columns of a panel, or why the weights stay as they are."""
        if op.rhs not in self.known:
            return "the right operand is not constant"
        element = element_type(op.rhs)
        if len(shape_of(op.rhs)) != 2 or not (is_float(element) or is_quantized(element)):
            return "the right operand is no matrix of floats or narrow integers"
        if 0 in op.shape or 0 in shape_of(op.lhs):
            return "it has no elements"
        if self.width:
            return self.width
        assert isinstance(element, FixedBitwidthType)
        _, columns, _ = op.extents
        if self.target is None:
            return columns if is_of_bytes(op) else "its elements are no bytes"
        lanes = self.target.vector_lanes(max(element.bitwidth, 32))
        if columns < lanes // 2:
            return f"{columns} columns fill less than half of a vector of {lanes}"
        rows = math.prod(op.shape[:-1])
        return lanes * best_tile(rows, columns, lanes, self.target.registers.data).vectors

    def pack(self, op: MatmulOp, width: int) -> None:
        """Put the packed product in the op's place."""
        new = PackedMatmulOp(
            op.lhs,
            self.panels(op, width),
            columns=op.shape[-1],
            transpose_a=op.transpose_a is not None,
            result_element=op.result_element,
        )
        new.location = op.location
        self.block.insert_op_before(new, op)
        remark("pack-matmul", new, f"weights in panels of {width} columns")
        new.results[0].name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(new.results[0])
        op.detach()
        op.erase()

    def panels(self, op: MatmulOp, width: int) -> SSAValue:
        """The weights in panels, inserted behind them once."""
        transposed = op.transpose_b is not None
        key = (op.rhs, width, transposed)
        if key not in self.packed:
            source = "NK" if transposed else "KN"
            panels = LayoutTransformOp(op.rhs, src=source, dst=f"NK{width}n")
            panels.location = op.location
            self.block.insert_op_before(panels, op)
            self.packed[key] = panels.results[0]
        return self.packed[key]
