"""Conversion of VDLA programs to functions that the host program calls."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.backends.vdla.encoding import encode
from tcopt.backends.vdla.settings import FUNCTION, settings_of
from tcopt.backends.vdla.simulator.check import check_stream
from tcopt.backends.vdla.source import machine_of, stream_for
from tcopt.dialects.vdla import ProgramOp
from tcopt.support.host.host_calls import HOST_CALL, settings_attribute
from tcopt.support.ir.origins import node_names
from tcopt.support.ir.rewriting import rewrite
from tcopt.support.locations import nearest_location
from tcopt.support.machines.instruction_places import place_settings


class EncodeProgram(RewritePattern):
    """Replace a program by the declaration of a function that runs it; an attribute holds its
    128-bit instructions.

        vdla.program @copy(%x: memref<4x16xi32>, %y: memref<4x16xi32>) {...}
    ->
        func.func private @copy(memref<4x16xi32>, memref<4x16xi32>) attributes {
          tcopt.host_call = {function = "vdla_run", settings = {instructions = "8001...", ...}}}
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ProgramOp, rewriter: PatternRewriter) -> None:
        target = machine_of(op)
        stream = stream_for(op, target)
        check_stream(stream, target)
        settings = settings_of(encode(stream, target), target)
        settings |= place_settings(
            [", ".join(node_names(nearest_location(each))) for each in op.instructions]
        )
        function = FuncOp.external(op.sym_name.data, op.function_type.inputs.data, [])
        function.attributes[HOST_CALL] = DictionaryAttr(
            {"function": StringAttr(FUNCTION), "settings": settings_attribute(settings)}
        )
        rewriter.replace(op, function, [])


@dataclass(frozen=True)
class EncodeVdlaPass(ModulePass):
    """Convert VDLA programs to functions that the host calls and the runtime implements.

        vdla.program @copy(%x: memref<4x16xi32>, %y: memref<4x16xi32>) {
          vdla.load acc 0, %x[0] : 1x4 push(store)
          vdla.store acc 0, %y[0] : 1x4 pop(compute) push(compute)
          vdla.finish pop(store)
        }
    ->
        func.func private @copy(memref<4x16xi32>, memref<4x16xi32>) attributes {
          tcopt.host_call = {function = "vdla_run", settings = {
            instructions = "8001...", micro_ops = "", machine = "{...}", ...}}}

    The encoding is described in docs/vdla.md; the machine is the target of the program, by default
    `vdla`. A program that fails `vdla-check` is rejected here too, so no program is encoded
    without proof.

    Raises:
        VerificationError: the proof fails, or the machine lacks what an instruction needs.
        UnsupportedError: buffers exceed the address range.
    """

    name = "encode-vdla"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [EncodeProgram()], once=True)
