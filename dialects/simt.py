"""simt: what threads that run in lockstep do together.

`simt.shuffle` hands values from thread to thread of a warp (a sub-group of OpenCL) without memory
or a barrier. xDSL's gpu dialect has no such op; MLIR's is `gpu.shuffle`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.irdl import VarConstraint as Var
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """The value of the thread whose number in the block is this one's xor `offset`.

    ```mlir
    %r = simt.shuffle %v xor 16 : f32
    ```
    All threads of the warp reach it together. The offset is a power of two below the warp's size.
    It stands for communication, so nothing moves, merges or erases it.
    """

    name = "simt.shuffle"

    value = operand_def(Var("T", AnyAttr()))
    offset = prop_def(IntegerAttr[i64])
    result = result_def(Var("T", AnyAttr()))

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "$value `xor` $offset attr-dict `:` type($value)"

    def __init__(self, value: SSAValue | Operation, offset: int):
        value = SSAValue.get(value)
        super().__init__(
            operands=[value],
            properties={"offset": IntegerAttr(offset, i64)},
            result_types=[value.type],
        )

    @property
    def distance(self) -> int:
        """The offset as a number."""
        return self.offset.value.data

    def verify_(self) -> None:
        if self.distance < 1 or self.distance & (self.distance - 1):
            raise VerifyException(f"{self.distance} is no power of two")


DIALECT = Dialect("simt", [ShuffleOp], [])
