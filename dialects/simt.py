"""simt: collective operations of the threads of a warp, which run in lockstep.

`simt.shuffle` exchanges values between the threads of a warp (an OpenCL sub-group) without memory
or a barrier; it corresponds to MLIR's `gpu.shuffle`, which xDSL's gpu dialect lacks. `simt.mma`
multiplies matrices held by a warp. `simt.mma_sync` does so on the fragments held by each lane, and
`simt.exchange_rows` converts rows to fragments; `dialects/fragments.py` defines the mapping of
elements to lanes. Asynchronous copies are in `simt_copies.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseArrayBase,
    Float16Type,
    Float32Type,
    IntegerAttr,
    UnitAttr,
    VectorType,
    i64,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    BaseAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.irdl import VarConstraint as Var
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.fragments import MATRIX, elements_a_lane
from tcopt.dialects.simt_copies import CommitCopiesOp, CopyAsyncOp, WaitCopiesOp


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """Returns the value of the thread whose number in the block is this one's xor `offset`.

    ```mlir
    %r = simt.shuffle %v xor 16 : f32
    ```
    All threads of the warp must execute it together. The offset is a power of two below the warp
    size. The op communicates between threads, so it is never moved, merged or erased.
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
        """The offset as an int."""
        return self.offset.value.data

    def verify_(self) -> None:
        if self.distance < 1 or self.distance & (self.distance - 1):
            raise VerifyException(f"{self.distance} is not a power of two")


@irdl_op_definition
class MmaOp(IRDLOperation):
    """Accumulates the matrix product of `lhs` and `rhs` into `acc`: one tile for a whole warp.

    ```mlir
    %r = simt.mma %acc, %a, %b : vector<16x16xf16>, vector<16x8xf16> into vector<16x8xf32>
    ```
    The threads of a warp execute it together and hold each tile jointly. Products are added in the
    precision of `acc`, in an order chosen by the hardware.
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
            raise VerifyException("tiles must have two dimensions")
        (m, n), (rows, depth), (inner, columns) = shapes
        if (rows, columns) != (m, n) or inner != depth:
            raise VerifyException(f"{rows}x{depth} times {inner}x{columns} is not {m}x{n}")


@irdl_op_definition
class MmaSyncOp(IRDLOperation):
    """`simt.mma` as executed by one lane of a warp, on its fragments.

    ```mlir
    %r = simt.mma_sync %acc, %a, %b shape [16, 8, 16]
      : vector<2x2x2xf16>, vector<2x2xf16> into vector<4xf32>
    ```
    `shape` is rows, columns and depth. A fragment holds the elements that `dialects/fragments.py`
    assigns to the lane, in that order, whatever the shape of the vector. All lanes of the warp
    execute it together.
    """

    name = "simt.mma_sync"

    acc = operand_def(Var("T", BaseAttr(VectorType)))
    lhs = operand_def(VectorType)
    rhs = operand_def(VectorType)
    shape = prop_def(DenseArrayBase.constr(i64))
    result = result_def(Var("T", BaseAttr(VectorType)))

    traits = traits_def(Pure())

    assembly_format = (
        "$acc `,` $lhs `,` $rhs `shape` $shape attr-dict "
        "`:` type($lhs) `,` type($rhs) `into` type($acc)"
    )

    def __init__(
        self,
        acc: SSAValue | Operation,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        shape: Sequence[int],
    ):
        acc = SSAValue.get(acc)
        super().__init__(
            operands=[acc, lhs, rhs],
            properties={"shape": DenseArrayBase.from_list(i64, shape)},
            result_types=[acc.type],
        )

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, columns and depth."""
        m, n, depth = self.shape.get_values()
        return m, n, depth

    def verify_(self) -> None:
        sizes = self.shape.get_values()
        if len(sizes) != 3 or sizes[:2] != (16, 8) or sizes[2] not in (8, 16):
            raise VerifyException("the shape must be [16, 8, 8] or [16, 8, 16]")
        m, n, depth = sizes
        for value, rows, columns in ((self.acc, m, n), (self.lhs, m, depth), (self.rhs, depth, n)):
            count = prod(_shape(value))
            if count != elements_a_lane(rows, columns):
                raise VerifyException(
                    f"a lane holds {elements_a_lane(rows, columns)} of {rows}x{columns} elements, "
                    f"not {count}"
                )
        if _element(self.lhs) != _element(self.rhs) or not _is_half(_element(self.lhs)):
            raise VerifyException("both factors must be f16 or bf16")
        if not isinstance(_element(self.acc), Float32Type):
            raise VerifyException("accumulators must be f32")


@irdl_op_definition
class ExchangeRowsOp(IRDLOperation):
    """Converts rows of 8x8 matrices, provided by the lanes of a warp, to fragments.

    ```mlir
    %r = simt.exchange_rows %row : vector<8xf16> to vector<8xf16>
    ```
    Lane `8 * m + i` provides row i of matrix m. From each matrix, in order, a lane receives
    elements `2 * (lane mod 4)` and the next one of row `lane floordiv 4`, or of that column with
    `transposed`. There are one, two or four matrices, each of which contributes two elements to
    the result; the other lanes provide the same rows again. All lanes of the warp execute it
    together. In PTX it is part of `ldmatrix`, which also loads the rows.
    """

    name = "simt.exchange_rows"

    row = operand_def(VectorType)
    transposed = opt_prop_def(UnitAttr)
    result = result_def(VectorType)

    traits = traits_def(Pure())

    assembly_format = (
        "(`transposed` $transposed^)? $row attr-dict `:` type($row) `to` type($result)"
    )

    def __init__(self, row: SSAValue | Operation, matrices: int, *, transposed: bool = False):
        row = SSAValue.get(row)
        assert isa(row.type, VectorType)
        super().__init__(
            operands=[row],
            properties={"transposed": UnitAttr() if transposed else None},
            result_types=[VectorType(row.type.get_element_type(), [2 * matrices])],
        )

    @property
    def matrices(self) -> int:
        """The number of matrices."""
        return prod(_shape(self.result)) // 2

    def verify_(self) -> None:
        if _shape(self.row) != (MATRIX,) or not _is_half(_element(self.row)):
            raise VerifyException("a row must have eight elements of f16 or bf16")
        if _element(self.result) != _element(self.row) or _shape(self.result) not in (
            (2,),
            (4,),
            (8,),
        ):
            raise VerifyException("a lane must receive two elements of one, two or four matrices")


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isa(value.type, VectorType)
    return value.type.get_shape()


def _element(value: SSAValue) -> Attribute:
    assert isa(value.type, VectorType)
    return value.type.get_element_type()


def _is_half(element: Attribute) -> bool:
    return isinstance(element, Float16Type | BFloat16Type)


DIALECT = Dialect(
    "simt",
    [CommitCopiesOp, CopyAsyncOp, ExchangeRowsOp, MmaOp, MmaSyncOp, ShuffleOp, WaitCopiesOp],
    [],
)
