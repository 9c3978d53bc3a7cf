"""Lowering of loop functions to programs of an accelerator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects import accelerator, loop
from tcopt.dialects.intrinsics import intrinsic, vdla
from tcopt.dialects.target import AcceleratorFacts, target_around
from tcopt.passes.loop.accelerator.run_lowering import RunLowering
from tcopt.passes.loop.accelerator.vdla_lowering import VdlaLowering
from tcopt.passes.loop.accelerator.writing_out import WritingOut, is_for_accelerator
from tcopt.support.ir.rewriting import rewrite


@dataclass(frozen=True)
class LowerLoopToAcceleratorPass(ModulePass):
    """Lower loop functions to programs of the module's accelerator.

    A loop nest around a single intrinsic call becomes the loops of an instruction, as far as the
    machine has loops (`Instruction.loops`): loops that are contiguous in all operands are merged,
    and a nest that is too large becomes several instructions. All other loops are unrolled, as are
    loops marked `unrolled`. A buffer with several slots uses them in rotation, one each time its
    block is entered. Guards, and tiles that are partly outside of their buffers, become shorter
    loops and iterations that are not inside.

        loop.for %i = 0 to 4 {
          loop.intrin "tile_load_1x8" outs(%a[%i, 0] by [0, 1] : memref<4x8xi8>)
            ins(%x[%i - 1, 0] by [0, 1] : memref<8x8xi8>)
        ->
        accelerator.run "tile_load_1x8" [4] out tile_data[0 by 1] in %x[-8 by 8] inside [1 to 4]

    Intrinsics of VDLA become its instructions (`vdla_lowering.py`): copies become transfers, other
    calls micro-ops in two hardware loops.

        loop.for %i = 0 to 2 {
          %a = loop.alloc acc_input {slots = 2 : i64, places = [0, 40]} : memref<4x10x16xi8>
          loop.for %y = 0 to 4 {
            loop.for %z = 0 to 10 {
              loop.intrin "vdla_load_inp_1x16" outs(%a[%y, %z, 0] by [0, 0, 1] : ..)
                ins(%x[%i * 3 + %y - 1, %z - 1, 0] by [0, 0, 1] : memref<8x8x16xi8>)
        ->
        vdla.load inp 0, %x[0] : 3x8 pad [1, 0, 1, 1]
        vdla.load inp 40, %x[16] : 4x8 pad [0, 0, 1, 1]

    Each function becomes a program with the same name and arguments; functions without buffers in
    the accelerator's memories are not changed. The pass runs after `lower-blocks` and `place-sram`;
    `order-units` adds the synchronisation of units afterwards.
    """

    name = "lower-loop-to-accelerator"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [LowerFunction()], once=True)


@dataclass
class LowerFunction(RewritePattern):
    """Convert a function whose buffers are all placed to a program.

    loop.func @f(%x: memref<4x8xi8>, %y: memref<4x8xi8>) {
      %a = loop.alloc tile_data {places = [0]} : memref<4x8xi8>
      loop.for %i = 0 to 4 { loop.intrin "tile_load_1x8" outs(%a[%i, 0] ..) ins(%x[%i, 0] ..) }
      ...
    ->
    accelerator.program @f(%x: memref<4x8xi8>, %y: memref<4x8xi8>) {
      accelerator.run "tile_load_1x8" [4] out tile_data[0 by 1] in %x[0 by 8]
      ...
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.FuncOp, rewriter: PatternRewriter) -> None:
        facts = target_around(op)
        if isinstance(facts, AcceleratorFacts) and is_for_accelerator(op):
            rewriter.replace(op, lowering_of(op)(op, facts).program(), [])


LOWERINGS: Mapping[type, type[WritingOut]] = {
    accelerator.Instruction: RunLowering,
    vdla.Instruction: VdlaLowering,
}
"""Lowerings by the class of `Intrinsic.instruction`."""


def lowering_of(function: loop.FuncOp) -> type[WritingOut]:
    """Return the lowering for the instructions that a function calls."""
    for op in function.walk():
        if isinstance(op, loop.IntrinOp):
            found = LOWERINGS.get(type(intrinsic(op.intrin.data).instruction))
            if found is not None:
                return found
    return RunLowering
