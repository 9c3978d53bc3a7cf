"""accelerator: programs for accelerators that are described by facts and intrinsics.

A step is one instruction: by default calls of an intrinsic, in the loops that the hardware
supports, on addresses in its memories. The intrinsic defines what it computes; the facts define the
unit that executes it, its duration and how units synchronise (docs/adding_an_accelerator.md). Other
dialects define the steps of instruction sets of their own, such as `vdla`.
"""

from xdsl.ir import Dialect

from tcopt.dialects.accelerator.instructions import Loops, RunOp
from tcopt.dialects.accelerator.operands import Instruction, Place
from tcopt.dialects.accelerator.program import ProgramOp
from tcopt.dialects.accelerator.steps import BarrierOp, Effects, FinishOp, RelayOp, StepOp, TableOp

DIALECT = Dialect("accelerator", [BarrierOp, FinishOp, ProgramOp, RelayOp, RunOp], [])

__all__ = [
    "DIALECT",
    "BarrierOp",
    "Effects",
    "FinishOp",
    "Instruction",
    "Loops",
    "Place",
    "ProgramOp",
    "RelayOp",
    "RunOp",
    "StepOp",
    "TableOp",
]
