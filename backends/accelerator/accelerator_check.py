"""Proof that the result of an accelerator program does not depend on the timing of its units.

A walk by hand: it is an analysis and changes nothing.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tcopt.backends.accelerator.check import check_program
from tcopt.dialects.accelerator import ProgramOp


@dataclass(frozen=True)
class AcceleratorCheckPass(ModulePass):
    """Reject accelerator programs whose units may conflict.

        accelerator.run "tile_load_1x8" [4] out tile_data[0 by 1] in %x[0 by 8]
        accelerator.run "tile_store_1x8" [4] out %y[0 by 8] in tile_data[0 by 1]
        accelerator.finish
    ->
        invalid-ir: 'accelerator.run': race: races with task 0 for tile_data: ...

    The proof holds for any duration of instructions: no two units access an entry of a memory or
    buffer at the same time if one of them writes it, no unit waits forever, all tokens are
    consumed, no queue overflows, and nothing is still running when the program ends. The
    accelerator's facts define how units synchronise. Programs are not modified.

    Options:
        print_proof: print the number of steps and the maximum number of tokens to stderr.
    Raises:
        VerificationError: the first fault, with the step and its location.
    """

    name = "accelerator-check"

    print_proof: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in op.ops:
            if isinstance(program, ProgramOp):
                read, proof = check_program(program)
                if self.print_proof:
                    fullest = ", ".join(f"{name} {most}" for name, most in proof.fullest.items())
                    text = f"accelerator-check: @{read.name}: {len(read.tasks)} steps"
                    print(f"{text}, at most {fullest or 'no'} tokens", file=sys.stderr)
