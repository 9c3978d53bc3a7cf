"""accelerator: programs for accelerators that are described by facts and intrinsics.

A step is one instruction: calls of an intrinsic, in the loops that the hardware supports, on
addresses in its memories. The intrinsic defines what it computes; the facts define the unit that
executes it, its duration and how units synchronise (docs/adding_an_accelerator.md).
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
