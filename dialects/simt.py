"""simt: what threads that run in lockstep, a warp of them, do together.

`simt.shuffle` hands values from thread to thread of a warp (a sub-group of OpenCL) without memory
or a barrier; xDSL's gpu dialect has no such op, MLIR's is `gpu.shuffle`. `simt.mma` multiplies
matrices that a warp holds.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, VectorType, i64
from xdsl.ir import Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    BaseAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.irdl import VarConstraint as Var
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa


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


@irdl_op_definition
class MmaOp(IRDLOperation):
    """Adds to `acc` the matrix product of `lhs` and `rhs`: one tile for a whole warp.

    ```mlir
    %r = simt.mma %acc, %a, %b : vector<16x16xf16>, vector<16x8xf16> into vector<16x8xf32>
    ```
    The threads of a warp reach it together and hold each tile together. Products are added in
    the precision of `acc`, in an order of the hardware's own.
    """

    name = "simt.mma"

    acc = operand_def(Var("T", BaseAttr(VectorType)))
    lhs = operand_def(VectorType)
    rhs = operand_def(VectorType)
    result = result_def(Var("T", BaseAttr(VectorType)))

    traits = traits_def(Pure())

    assembly_format = (
        "$acc `,` $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `into` type($acc)"
    )

    def __init__(
        self, acc: SSAValue | Operation, lhs: SSAValue | Operation, rhs: SSAValue | Operation
    ):
        acc = SSAValue.get(acc)
        super().__init__(operands=[acc, lhs, rhs], result_types=[acc.type])

    def verify_(self) -> None:
        shapes = [_shape(value) for value in (self.acc, self.lhs, self.rhs)]
        if any(len(shape) != 2 for shape in shapes):
            raise VerifyException("tiles have two dimensions")
        (m, n), (rows, depth), (inner, columns) = shapes
        if (rows, columns) != (m, n) or inner != depth:
            raise VerifyException(
                f"{rows}x{depth} times {inner}x{columns} gives no {m}x{n} elements"
            )


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isa(value.type, VectorType)
    return value.type.get_shape()


DIALECT = Dialect("simt", [MmaOp, ShuffleOp], [])
