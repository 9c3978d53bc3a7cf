"""vector.gather and vector.scatter: access at computed offsets."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    IndexType,
    IntegerType,
    MemRefType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.vector_.common import shape_of, vector_type_of

_INTEGER_VECTOR = VectorType.constr(base(IntegerType) | base(IndexType))


def _verify_indexed_access(
    memref: Attribute, indices: Sequence[SSAValue], lanes: Sequence[SSAValue], element: SSAValue
) -> None:
    """Check that a gather or scatter has valid indices, and vectors of equal shape."""
    assert isa(memref, MemRefType)
    if memref.get_num_dims() != len(indices):
        raise VerifyException(f"expected {memref.get_num_dims()} indices, got {len(indices)}")
    if memref.element_type != vector_type_of(element).element_type:
        raise VerifyException(f"vector {element.type} and {memref} differ in element type")
    for lane in lanes:
        if shape_of(lane) != shape_of(element):
            raise VerifyException(f"{lane.type} and {element.type} have different shapes")


@irdl_op_definition
class GatherOp(IRDLOperation):
    """Reads one element for each active lane; other lanes take the element of `pass_thru`.

    Lane i reads at the address of `base[indices]` plus `index_vec[i]` elements.
    ```mlir
    %r = vector.gather %m[%i][%idx], %mask, %pass
      : memref<64xf32>, vector<16xi32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
    ```
    """

    name = "vector.gather"

    base = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    index_vec = operand_def(_INTEGER_VECTOR)
    mask = operand_def(VectorType.constr(i1))
    pass_thru = operand_def(VectorType)
    result = result_def(VectorType)

    traits = traits_def(MemoryReadEffect())

    assembly_format = (
        "$base `[` $indices `]` `` `[` $index_vec `]` `,` $mask `,` $pass_thru attr-dict `:` "
        "type($base) `,` type($index_vec) `,` type($mask) `,` type($pass_thru) `into` "
        "type($result)"
    )

    def __init__(
        self,
        base: SSAValue | Operation,
        indices: Sequence[SSAValue | Operation],
        index_vec: SSAValue | Operation,
        mask: SSAValue | Operation,
        pass_thru: SSAValue | Operation,
    ):
        super().__init__(
            operands=[base, indices, index_vec, mask, pass_thru],
            result_types=[SSAValue.get(pass_thru).type],
        )

    def verify_(self) -> None:
        _verify_indexed_access(
            self.base.type, self.indices, (self.index_vec, self.mask, self.pass_thru), self.result
        )
        if self.pass_thru.type != self.result.type:
            raise VerifyException(f"{self.pass_thru.type} should be {self.result.type}")


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """Writes each lane whose mask is 1 at `base[indices]` plus `index_vec[i]` elements.

    Lanes write in order: if two lanes have the same address, the later one wins.
    ```mlir
    vector.scatter %m[%i][%idx], %mask, %v
      : memref<64xf32>, vector<16xi32>, vector<16xi1>, vector<16xf32>
    ```
    """

    name = "vector.scatter"

    base = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    index_vec = operand_def(_INTEGER_VECTOR)
    mask = operand_def(VectorType.constr(i1))
    value_to_store = operand_def(VectorType)

    traits = traits_def(MemoryWriteEffect())

    assembly_format = (
        "$base `[` $indices `]` `` `[` $index_vec `]` `,` $mask `,` $value_to_store attr-dict `:` "
        "type($base) `,` type($index_vec) `,` type($mask) `,` type($value_to_store)"
    )

    def __init__(
        self,
        base: SSAValue | Operation,
        indices: Sequence[SSAValue | Operation],
        index_vec: SSAValue | Operation,
        mask: SSAValue | Operation,
        value_to_store: SSAValue | Operation,
    ):
        super().__init__(operands=[base, indices, index_vec, mask, value_to_store])

    def verify_(self) -> None:
        _verify_indexed_access(
            self.base.type, self.indices, (self.index_vec, self.mask), self.value_to_store
        )
