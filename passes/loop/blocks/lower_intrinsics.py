"""Lowering of intrinsic calls to kernel-level ops."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.intrinsics import intrinsic
from tcopt.dialects.loop.intrin import OperandTile
from tcopt.support.ir.rewriting import rewrite
from tcopt.support.syntax.access_syntax import unique_operands


class LowerIntrinsic(RewritePattern):
    """Replace a call by loads of its tiles, the ops of its declaration, and a store.

    loop.intrin "bf16_dot" outs(%c[%i] : memref<4xf32>) ins(%a[0] by [1], %b[0] by [1] : ...)
    ->
    %0 = loop.load %c[%i] : memref<4xf32>
    %1 = loop.load %a[0] lanes [1] : memref<2xbf16>, vector<2xbf16>
    %2 = loop.load %b[0] lanes [1] : memref<2xbf16>, vector<2xbf16>
    %3 = simd.dot %0, %1, %2 : vector<2xbf16> into f32
    loop.store %3, %c[%i] : memref<4xf32>
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.IntrinOp, rewriter: PatternRewriter) -> None:
        declared = intrinsic(op.intrin.data)
        if declared.lowering is None:
            return
        # An output that the intrinsic only overwrites is not an operand of the lowering.
        loads = [_load(tile, op) for tile in op.tiles if tile.is_read]
        ops = declared.lowering(*(load.result for load in loads))
        output = op.tiles[0]
        store = loop.StoreOp(
            ops[-1].results[0], output.buffer, *_access(output, op), lanes=_lanes(output)
        )
        rewriter.replace(op, [*loads, *ops, store])


def _load(tile: OperandTile, op: loop.IntrinOp) -> loop.LoadOp:
    return loop.LoadOp(
        tile.buffer, *_access(tile, op), lanes=_lanes(tile), result_type=_value_type(tile)
    )


def _access(tile: OperandTile, op: loop.IntrinOp) -> tuple[AffineMap, list[SSAValue]]:
    return unique_operands(AffineMap(len(op.indices), 0, tile.first), op.indices)


def _lanes(tile: OperandTile) -> list[int] | None:
    """Return the lane steps of a tile's vector, dimension by dimension; None for a scalar."""
    return [step for row in tile.steps for step in row] or None


def _value_type(tile: OperandTile) -> Attribute:
    type_ = tile.buffer.type
    assert isa(type_, MemRefType)
    element = type_.get_element_type()
    return VectorType(element, tile.extents) if tile.extents else element


@dataclass(frozen=True)
class LowerIntrinsicsPass(ModulePass):
    """Replace each `loop.intrin` by loads of its tiles, its kernel-level ops, and a store.

    The ops are given by the intrinsic's declaration (`dialects/intrinsics/`). Tiles become vectors
    and single elements scalars, so later passes vectorise and unroll them like other ops, and keep
    accumulators in registers. Intrinsics whose operands stay in memory are left to the target's own
    passes.

        loop.intrin "bf16_dot" outs(%c[%i, %j] : memref<4x16xf32>)
          ins(%a[%i, %k] by [0, 1] : memref<4x64xbf16>,
              %b[%k floordiv 2, %j, 0] by [0, 0, 1] : memref<32x16x2xbf16>)
        ->
        %0 = loop.load %c[%i, %j] : memref<4x16xf32>
        %1 = loop.load %a[%i, %k] lanes [0, 1] : memref<4x64xbf16>, vector<2xbf16>
        %2 = loop.load %b[%k floordiv 2, %j, 0] lanes [0, 0, 1] : ..., vector<2xbf16>
        %3 = simd.dot %0, %1, %2 : vector<2xbf16> into f32
        loop.store %3, %c[%i, %j] : memref<4x16xf32>
    """

    name = "lower-intrinsics"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [LowerIntrinsic()])
