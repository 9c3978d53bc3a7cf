"""vdla: instructions of an accelerator with a load, a compute and a store unit.

The hardware is specified in docs/vdla.md. Instructions are steps of an `accelerator.program`, with
explicit addresses in the accelerator's memories; units synchronise by tokens.
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
from tcopt.dialects.vdla.compute import AluOp, ComputeOp, GemmOp
from tcopt.dialects.vdla.instruction import InstructionOp
from tcopt.dialects.vdla.kernel import KernelOp
from tcopt.dialects.vdla.transfer import LoadOp, LoadUopsOp, StoreOp, TransferOp

DIALECT = Dialect(
    "vdla",
    [AluOp, GemmOp, KernelOp, LoadOp, LoadUopsOp, StoreOp],
    [AluCodeAttr, KernelKindAttr, KernelType, MemoryAttr],
)

__all__ = [
    "DIALECT",
    "WIDTHS",
    "AluCode",
    "AluCodeAttr",
    "AluOp",
    "ComputeOp",
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
    "StoreOp",
    "TransferOp",
    "Unit",
]
