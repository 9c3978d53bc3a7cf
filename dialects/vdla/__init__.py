"""vdla: programs for an accelerator with a load, a compute and a store unit.

The hardware is specified in docs/vdla.md. A program is a stream of instructions with explicit
addresses in the accelerator's memories; units synchronise by tokens, which are flags of
instructions.
"""

from xdsl.ir import Dialect

from tcopt.dialects.vdla.attrs import (
    WIDTHS,
    AluCode,
    AluCodeAttr,
    KernelKind,
    KernelKindAttr,
    KernelType,
    Memory,
    MemoryAttr,
    Unit,
)
from tcopt.dialects.vdla.compute import AluOp, ComputeOp, FinishOp, GemmOp
from tcopt.dialects.vdla.instruction import FLAGS, InstructionOp
from tcopt.dialects.vdla.kernel import KernelOp
from tcopt.dialects.vdla.program import ProgramOp
from tcopt.dialects.vdla.transfer import LoadOp, LoadUopsOp, StoreOp, TransferOp

DIALECT = Dialect(
    "vdla",
    [AluOp, FinishOp, GemmOp, KernelOp, LoadOp, LoadUopsOp, ProgramOp, StoreOp],
    [AluCodeAttr, KernelKindAttr, KernelType, MemoryAttr],
)

__all__ = [
    "DIALECT",
    "FLAGS",
    "WIDTHS",
    "AluCode",
    "AluCodeAttr",
    "AluOp",
    "ComputeOp",
    "FinishOp",
    "GemmOp",
    "InstructionOp",
    "KernelKind",
    "KernelKindAttr",
    "KernelOp",
    "KernelType",
    "LoadOp",
    "LoadUopsOp",
    "Memory",
    "MemoryAttr",
    "ProgramOp",
    "StoreOp",
    "TransferOp",
    "Unit",
]
