"""The proof that a program of the accelerator computes the same in every order of its units.

A walk by hand: it changes nothing.
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
    """Refuses a program of the accelerator whose units may get in each other's way.

        vdla.load inp 0, %x[0] : 1x4
        vdla.gemm %k
    ->
        invalid-ir: 'vdla.gemm': race: races with task 0 for inp: gemm ..., and load inp 0, x[0]

    The proof holds for every time that instructions may take (docs/vdla.md): no two units touch an
    entry of a memory or a buffer at the same time if one writes it, none waits forever, all tokens
    are taken, no queue has to hold more than it can, nothing runs any more when the program is
    over, and micro-ops are there when they are executed. A program is left as it is.

    Options:
        print_proof: print to stderr how many tokens each queue may hold at most.
    Raises:
        VerificationError: the first fault, with the instruction and where it comes from.
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
