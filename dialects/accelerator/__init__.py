"""accelerator: programs of an accelerator that a file of facts and intrinsics describes.

A step is one instruction: calls of an intrinsic in the loops that the machine has, on places in its
memories. What it computes is the intrinsic's behaviour; which unit executes it, how long that takes
and how units wait for each other, the facts say (docs/adding_an_accelerator.md).
"""

from xdsl.ir import Dialect

from tcopt.dialects.accelerator.instructions import (
    BarrierOp,
    FinishOp,
    Loops,
    RelayOp,
    RunOp,
    StepOp,
)
from tcopt.dialects.accelerator.operands import Instruction, Place
from tcopt.dialects.accelerator.program import ProgramOp

DIALECT = Dialect("accelerator", [BarrierOp, FinishOp, ProgramOp, RelayOp, RunOp], [])

__all__ = [
    "DIALECT",
    "BarrierOp",
    "FinishOp",
    "Instruction",
    "Loops",
    "Place",
    "ProgramOp",
    "RelayOp",
    "RunOp",
    "StepOp",
]
