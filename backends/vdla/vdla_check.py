"""Proof that the result of a VDLA program does not depend on the timing of its units.

A walk by hand: it is an analysis and changes nothing.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tcopt.backends.vdla.simulator.check import check_stream
from tcopt.backends.vdla.source import machine_of, programs_of, stream_for


@dataclass(frozen=True)
class VdlaCheckPass(ModulePass):
    """Reject VDLA programs whose units may conflict.

        vdla.load inp 0, %x[0] : 1x4
        vdla.gemm %k
    ->
        invalid-ir: 'vdla.gemm': race: races with task 0 for inp: gemm ..., and load inp 0, x[0]

    The proof holds for any duration of instructions (docs/vdla.md): no two units access an entry
    of a memory or buffer at the same time if one of them writes it, no unit waits forever, all
    tokens are consumed, no queue overflows, nothing is still running when the program ends, and
    micro-ops have been loaded when they are executed. Programs are not modified.

    Options:
        print_proof: print the maximum number of tokens in each queue to stderr.
    Raises:
        VerificationError: the first fault, with the instruction and its location.
    """

    name = "vdla-check"

    print_proof: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in programs_of(op):
            target = machine_of(program)
            stream = stream_for(program, target)
            proof = check_stream(stream, target)
            if self.print_proof:
                fullest = ", ".join(f"{name} {most}" for name, most in proof.fullest.items())
                text = f"vdla-check: @{stream.name}: {len(stream.instructions)} instructions"
                print(f"{text}, at most {fullest or 'no'} tokens", file=sys.stderr)
