"""Vectors built from constants or scalars, and reductions of vectors to scalars."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    VectorType,
    i1,
    i64,
)
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.vector_.common import ELEMENT, shape_of


@irdl_op_definition
class ConstantMaskOp(IRDLOperation):
    """A constant mask that is 1 below the given sizes.

    ```mlir
    %m = vector.constant_mask [5] : vector<16xi1>
    ```
    """

    name = "vector.constant_mask"

    mask_dim_sizes = prop_def(DenseArrayBase.constr(i64))
    result = result_def(VectorType.constr(i1))

    traits = traits_def(Pure())

    assembly_format = "$mask_dim_sizes attr-dict `:` type($result)"

    def __init__(self, sizes: Sequence[int], result_type: VectorType):
        super().__init__(
            result_types=[result_type],
            properties={"mask_dim_sizes": DenseArrayBase.from_list(i64, sizes)},
        )

    def verify_(self) -> None:
        shape, sizes = shape_of(self.result), self.mask_dim_sizes.get_values()
        if len(shape) != len(sizes):
            raise VerifyException("expected a size for each dimension of the mask")
        for extent, size in zip(shape, sizes, strict=True):
            if not 0 <= size <= extent:
                raise VerifyException(f"mask size {size} is not in [0, {extent}]")
        if 0 in sizes and any(sizes):
            raise VerifyException("when one mask size is 0 all should be")


@irdl_op_definition
class StepOp(IRDLOperation):
    """The indices 0, 1, 2, ... as a vector: `%r = vector.step : vector<16xindex>`."""

    name = "vector.step"

    result = result_def(VectorType.constr(base(IndexType)))

    traits = traits_def(Pure())

    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, result_type: VectorType):
        super().__init__(result_types=[result_type])

    def verify_(self) -> None:
        if len(shape_of(self.result)) != 1:
            raise VerifyException("expected a vector of one dimension")


@irdl_op_definition
class FromElementsOp(IRDLOperation):
    """A vector of the given scalars in row-major order.

    ```mlir
    %r = vector.from_elements %a, %b : vector<2xf32>
    ```
    """

    name = "vector.from_elements"

    _T: ClassVar = VarConstraint("T", ELEMENT)
    elements = var_operand_def(_T)
    result = result_def(VectorType.constr(_T))

    traits = traits_def(Pure())

    assembly_format = "$elements attr-dict `:` type($result)"

    def __init__(self, elements: Sequence[SSAValue | Operation], result_type: VectorType):
        super().__init__(operands=[elements], result_types=[result_type])

    def verify_(self) -> None:
        if len(self.elements) != prod(shape_of(self.result)):
            raise VerifyException(f"{len(self.elements)} elements do not fill {self.result.type}")


@irdl_op_definition
class ReductionOp(IRDLOperation):
    """Reduces the elements of a vector, and `acc` if given, to a scalar.

    Float sums and products are evaluated from the first lane to the last, starting with `acc`,
    unless `fastmath<reassoc>` allows any order.
    ```mlir
    %s = vector.reduction <add>, %v, %acc fastmath<reassoc> : vector<16xf32> into f32
    ```
    """

    name = "vector.reduction"

    _T: ClassVar = VarConstraint("T", AnyAttr())
    vector = operand_def(VectorType.constr(_T))
    acc = opt_operand_def(_T)
    dest = result_def(_T)
    kind = prop_def(CombiningKindAttr)
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))

    traits = traits_def(Pure())

    assembly_format = (
        "$kind `,` $vector (`,` $acc^)? (`fastmath` `` $fastmath^)? attr-dict "
        "`:` type($vector) `into` type($dest)"
    )

    def __init__(
        self,
        vector: SSAValue | Operation,
        kind: CombiningKindAttr | CombiningKindFlag,
        acc: SSAValue | Operation | None = None,
        fastmath: FastMathFlagsAttr | None = None,
    ):
        vector = SSAValue.get(vector, type=VectorType)
        if isinstance(kind, CombiningKindFlag):
            kind = CombiningKindAttr(kind)
        super().__init__(
            operands=[vector, acc],
            result_types=[vector.type.element_type],
            properties={"kind": kind, "fastmath": fastmath},
        )
