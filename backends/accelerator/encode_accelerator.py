"""Conversion of accelerator programs to functions that the host program calls."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.backends.accelerator.check import check_program, facts_for
from tcopt.backends.accelerator.code import FUNCTION, code_for, settings_of
from tcopt.dialects.accelerator import ProgramOp
from tcopt.support.host.host_calls import HOST_CALL, settings_attribute
from tcopt.support.ir.origins import node_names
from tcopt.support.ir.rewriting import rewrite
from tcopt.support.locations import nearest_location
from tcopt.support.machines.instruction_places import place_settings


class EncodeProgram(RewritePattern):
    """Replace a program by a function declaration whose attribute holds the program's code.

        accelerator.program @copy(%x: memref<4x8xi8>, %y: memref<4x8xi8>) {...}
    ->
        func.func private @copy(memref<4x8xi8>, memref<4x8xi8>) attributes {
          tcopt.host_call = {function = "accelerator_run", settings = {program = "..."}}}
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ProgramOp, rewriter: PatternRewriter) -> None:
        facts = facts_for(op)
        check_program(op, facts)
        settings = settings_of(code_for(op, facts))
        settings |= place_settings([", ".join(node_names(nearest_location(s))) for s in op.steps])
        function = FuncOp.external(op.sym_name.data, op.function_type.inputs.data, [])
        function.attributes[HOST_CALL] = DictionaryAttr(
            {"function": StringAttr(FUNCTION), "settings": settings_attribute(settings)}
        )
        rewriter.replace(op, function, [])


@dataclass(frozen=True)
class EncodeAcceleratorPass(ModulePass):
    """Convert accelerator programs to functions that the host calls and the runtime implements.

        accelerator.program @copy(%x: memref<4x8xi8>, %y: memref<4x8xi8>) {...}
    ->
        func.func private @copy(memref<4x8xi8>, memref<4x8xi8>) attributes {
          tcopt.host_call = {function = "accelerator_run", settings = {program = "..."}}}

    A program is stored together with its accelerator: as text, if intrinsics define what it
    computes, or in the encoding of its instruction set (docs/vdla.md). A program that fails
    `accelerator-check` is rejected here too, so no program is encoded without proof.

    Raises:
        UnsupportedError: the program names no accelerator, or cannot be encoded.
        VerificationError: the proof fails, or the accelerator lacks what an instruction needs.
    """

    name = "encode-accelerator"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [EncodeProgram()], once=True)
