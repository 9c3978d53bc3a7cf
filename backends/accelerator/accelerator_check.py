"""The proof that a program of an accelerator computes the same in every order of its units.

A walk by hand: it changes nothing.
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
    """Refuses a program of an accelerator whose units may get in each other's way.

        accelerator.run "tile_load_1x8" [4] out tile_data[0 by 1] in %x[0 by 8]
        accelerator.run "tile_store_1x8" [4] out %y[0 by 8] in tile_data[0 by 1]
        accelerator.finish
    ->
        invalid-ir: 'accelerator.run': race: races with task 0 for tile_data: ...

    The proof holds for every time that instructions may take: no two units touch an entry of a
    memory or a buffer at the same time if one writes it, none waits forever, all tokens are taken,
    no queue has to hold more than it can, and nothing runs any more when the program is over. What
    units wait for is what the accelerator's facts say. A program is left as it is.

    Options:
        print_proof: print to stderr how many steps there are, and tokens at most.
    Raises:
        VerificationError: the first fault, with the step and where it comes from.
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
