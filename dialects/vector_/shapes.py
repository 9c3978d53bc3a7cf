"""Slicing, reshaping and transposing vectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    VectorType,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.vector_.common import ELEMENT, int_array, int_values, shape_of, vector_type_of


@irdl_op_definition
class ExtractStridedSliceOp(IRDLOperation):
    """A rectangular slice of a vector; unnamed trailing dimensions are kept whole.

    ```mlir
    %r = vector.extract_strided_slice %v {offsets = [0, 2], sizes = [2, 4], strides = [1, 1]}
      : vector<4x8x16xf32> to vector<2x4x16xf32>
    ```
    """

    name = "vector.extract_strided_slice"

    vector = operand_def(VectorType)
    offsets = prop_def(ArrayAttr[IntegerAttr[I64]])
    sizes = prop_def(ArrayAttr[IntegerAttr[I64]])
    strides = prop_def(ArrayAttr[IntegerAttr[I64]])
    result = result_def(VectorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())

    assembly_format = "$vector attr-dict `:` type($vector) `to` type($result)"

    def __init__(
        self,
        vector: SSAValue | Operation,
        offsets: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
    ):
        vector = SSAValue.get(vector, type=VectorType)
        shape = (*sizes, *vector.type.get_shape()[len(sizes) :])
        super().__init__(
            operands=[vector],
            result_types=[VectorType(vector.type.element_type, shape)],
            properties={
                "offsets": int_array(offsets),
                "sizes": int_array(sizes),
                "strides": int_array(strides or [1] * len(sizes)),
            },
        )

    def verify_(self) -> None:
        source = shape_of(self.vector)
        offsets, sizes = int_values(self.offsets), int_values(self.sizes)
        strides = int_values(self.strides)
        if not len(offsets) == len(sizes) == len(strides) <= len(source):
            raise VerifyException("offsets, sizes and strides should have one length <= the rank")
        if any(stride != 1 for stride in strides):
            raise VerifyException("strides other than 1 are not supported")
        for extent, offset, size in zip(source, offsets, sizes, strict=False):
            if offset < 0 or size < 1 or offset + size > extent:
                raise VerifyException(f"slice [{offset}, {offset + size}) exceeds [0, {extent})")
        if shape_of(self.result) != (*sizes, *source[len(sizes) :]):
            raise VerifyException(f"result type {self.result.type} does not match the sizes")


@irdl_op_definition
class InsertStridedSliceOp(IRDLOperation):
    """Replaces a rectangular slice of `dest` by `source`.

    ```mlir
    %r = vector.insert_strided_slice %s, %d {offsets = [0, 4], strides = [1]}
      : vector<4xf32> into vector<2x8xf32>
    ```
    """

    name = "vector.insert_strided_slice"

    _T: ClassVar = VarConstraint("T", VectorType.constr(ELEMENT))
    source = operand_def(VectorType)
    dest = operand_def(_T)
    offsets = prop_def(ArrayAttr[IntegerAttr[I64]])
    strides = prop_def(ArrayAttr[IntegerAttr[I64]])
    result = result_def(_T)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())

    assembly_format = "$source `,` $dest attr-dict `:` type($source) `into` type($dest)"

    def __init__(
        self,
        source: SSAValue | Operation,
        dest: SSAValue | Operation,
        offsets: Sequence[int],
        strides: Sequence[int] | None = None,
    ):
        source, dest = SSAValue.get(source), SSAValue.get(dest)
        super().__init__(
            operands=[source, dest],
            result_types=[dest.type],
            properties={
                "offsets": int_array(offsets),
                "strides": int_array(strides or [1] * len(shape_of(source))),
            },
        )

    def verify_(self) -> None:
        source, dest = shape_of(self.source), shape_of(self.dest)
        offsets = int_values(self.offsets)
        if len(offsets) != len(dest) or len(source) > len(dest):
            raise VerifyException("expected an offset for each dimension of the destination")
        if any(stride != 1 for stride in int_values(self.strides)):
            raise VerifyException("strides other than 1 are not supported")
        sizes = (1,) * (len(dest) - len(source)) + source
        for extent, offset, size in zip(dest, offsets, sizes, strict=True):
            if offset < 0 or offset + size > extent:
                raise VerifyException(f"slice [{offset}, {offset + size}) exceeds [0, {extent})")


@irdl_op_definition
class ShapeCastOp(IRDLOperation):
    """Changes the shape of a vector, keeping the row-major order of its elements.

    ```mlir
    %r = vector.shape_cast %v : vector<2x8xf32> to vector<16xf32>
    ```
    """

    name = "vector.shape_cast"

    source = operand_def(VectorType)
    result = result_def(VectorType)

    traits = traits_def(Pure())

    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def __init__(self, source: SSAValue | Operation, result_type: VectorType):
        super().__init__(operands=[source], result_types=[result_type])

    def verify_(self) -> None:
        source, result = vector_type_of(self.source), vector_type_of(self.result)
        if source.element_type != result.element_type:
            raise VerifyException(f"{source} and {result} have different element types")
        if prod(source.get_shape()) != prod(result.get_shape()):
            raise VerifyException(f"{source} and {result} have different numbers of elements")


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """Permutes dimensions: dimension i of the result is dimension `permutation[i]`.

    ```mlir
    %r = vector.transpose %v, [1, 0] : vector<4x8xf32> to vector<8x4xf32>
    ```
    """

    name = "vector.transpose"

    vector = operand_def(VectorType)
    permutation = prop_def(DenseArrayBase.constr(i64))
    result = result_def(VectorType)

    traits = traits_def(Pure())

    assembly_format = "$vector `,` $permutation attr-dict `:` type($vector) `to` type($result)"

    def __init__(self, vector: SSAValue | Operation, permutation: Sequence[int]):
        vector = SSAValue.get(vector, type=VectorType)
        shape = vector.type.get_shape()
        super().__init__(
            operands=[vector],
            result_types=[VectorType(vector.type.element_type, [shape[d] for d in permutation])],
            properties={"permutation": DenseArrayBase.from_list(i64, permutation)},
        )

    def verify_(self) -> None:
        shape = shape_of(self.vector)
        permutation = self.permutation.get_values()
        if sorted(permutation) != list(range(len(shape))):
            raise VerifyException(
                f"{list(permutation)} is not a permutation of {len(shape)} numbers"
            )
        if shape_of(self.result) != tuple(shape[d] for d in permutation):
            raise VerifyException(f"result type {self.result.type} does not match the permutation")
