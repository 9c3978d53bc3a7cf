"""xDSL's arith dialect, completed for vectors.

xDSL restricts the casts, `arith.select` and the comparisons to scalars. The definitions here also
accept vectors, like MLIR's, with MLIR's names and syntax, and replace the upstream ones in
`DIALECT`; every other op is xDSL's own class (`from xdsl.dialects import arith`). See
`upstream.py` for the reasons, and for traits that xDSL's ops lack.

Source: https://mlir.llvm.org/docs/Dialects/ArithOps/
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.arith import (
    CMPF_COMPARISON_OPERATIONS,
    CMPI_COMPARISON_OPERATIONS,
    Arith,
    ArithConstantMaterializationInterface,
    FastMathFlagsAttr,
    FloatingPointLikeBinaryOperation,
)
from xdsl.dialects.builtin import (
    AnyFloat,
    FixedBitwidthType,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
    container_of,
    i1,
    i64,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AnyOf,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.type import get_element_type_or_self, have_compatible_shape

from tcopt.dialects.upstream import add_traits
from tcopt.support.ir.quick_ir import init_op

_BOOL_LIKE = container_of(IntegerType(1))
_INTEGER_LIKE = container_of(IntegerType)
_INTEGER_OR_INDEX_LIKE = container_of(AnyOf.get(IntegerType, IndexType))
_FLOAT_LIKE = container_of(AnyFloat)


def bool_type_like(operand_type: Attribute) -> Attribute:
    """Return the type of a comparison's result: i1, or a vector of i1 of the operand's shape."""
    if isa(operand_type, VectorType):
        return VectorType(i1, operand_type.shape, operand_type.scalable_dims)
    return i1


def _predicate_number(predicate: int | str, names: Sequence[str]) -> int:
    if isinstance(predicate, int):
        return predicate
    if predicate not in names:
        raise VerifyException(
            f"unknown comparison predicate '{predicate}', expected one of {', '.join(names)}"
        )
    return names.index(predicate)


class _Comparison(IRDLOperation, ABC):
    """Verification shared by the two comparisons."""

    def _verify_comparison(
        self, lhs: Attribute, rhs: Attribute, result: Attribute, predicate: int, names: list[str]
    ) -> None:
        if lhs != rhs:
            raise VerifyException(f"operands have different types {lhs} and {rhs}")
        if result != bool_type_like(lhs):
            raise VerifyException(f"result type {result} should be {bool_type_like(lhs)}")
        if not 0 <= predicate < len(names):
            raise VerifyException(f"predicate {predicate} is not in [0, {len(names)})")


@irdl_op_definition
class CmpiOp(_Comparison):
    """Compares integers or indices, or vectors of them elementwise.

    Predicates: eq ne slt sle sgt sge ult ule ugt uge. The result is i1, or a vector of i1.
    ```mlir
    %m = arith.cmpi slt, %a, %b : vector<16xi32>
    ```
    """

    name = "arith.cmpi"

    predicate = prop_def(IntegerAttr)
    lhs = operand_def(_INTEGER_OR_INDEX_LIKE)
    rhs = operand_def(_INTEGER_OR_INDEX_LIKE)
    result = result_def(_BOOL_LIKE)

    traits = traits_def(Pure())

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation, arg: int | str):
        number = _predicate_number(arg, CMPI_COMPARISON_OPERATIONS)
        lhs = SSAValue.get(lhs)
        properties = {"predicate": IntegerAttr(number, i64)}
        init_op(self, [lhs, SSAValue.get(rhs)], [bool_type_like(lhs.type)], properties)

    def verify_(self) -> None:
        self._verify_comparison(
            self.lhs.type,
            self.rhs.type,
            self.result.type,
            self.predicate.value.data,
            CMPI_COMPARISON_OPERATIONS,
        )

    @classmethod
    def parse(cls, parser: Parser) -> CmpiOp:
        predicate = parser.parse_identifier()
        parser.parse_punctuation(",")
        lhs = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        rhs = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        operand_type = parser.parse_type()
        lhs, rhs = parser.resolve_operands([lhs, rhs], [operand_type] * 2, parser.pos)
        op = cls(lhs, rhs, predicate)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {CMPI_COMPARISON_OPERATIONS[self.predicate.value.data]}, ")
        printer.print_operand(self.lhs)
        printer.print_string(", ")
        printer.print_operand(self.rhs)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.lhs.type)


@irdl_op_definition
class CmpfOp(_Comparison):
    """Compares floats, or vectors of them elementwise.

    A predicate that starts with `o` is false if an operand is NaN; one that starts with `u` is
    true.
    ```mlir
    %m = arith.cmpf ogt, %a, %b fastmath<nnan> : vector<16xf32>
    ```
    """

    name = "arith.cmpf"

    predicate = prop_def(IntegerAttr)
    lhs = operand_def(_FLOAT_LIKE)
    rhs = operand_def(_FLOAT_LIKE)
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))
    result = result_def(_BOOL_LIKE)

    traits = traits_def(Pure())

    def __init__(
        self,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        arg: int | str,
        fastmath: FastMathFlagsAttr | None = None,
    ):
        number = _predicate_number(arg, CMPF_COMPARISON_OPERATIONS)
        super().__init__(
            operands=[lhs, rhs],
            result_types=[bool_type_like(SSAValue.get(lhs).type)],
            properties={"predicate": IntegerAttr(number, i64), "fastmath": fastmath},
        )

    def verify_(self) -> None:
        self._verify_comparison(
            self.lhs.type,
            self.rhs.type,
            self.result.type,
            self.predicate.value.data,
            CMPF_COMPARISON_OPERATIONS,
        )

    @classmethod
    def parse(cls, parser: Parser) -> CmpfOp:
        predicate = parser.parse_identifier()
        parser.parse_punctuation(",")
        lhs = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        rhs = parser.parse_unresolved_operand()
        fastmath = None
        if parser.parse_optional_keyword("fastmath"):
            fastmath = FastMathFlagsAttr(FastMathFlagsAttr.parse_parameter(parser))
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        operand_type = parser.parse_type()
        lhs, rhs = parser.resolve_operands([lhs, rhs], [operand_type] * 2, parser.pos)
        op = cls(lhs, rhs, predicate, fastmath)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {CMPF_COMPARISON_OPERATIONS[self.predicate.value.data]}, ")
        printer.print_operand(self.lhs)
        printer.print_string(", ")
        printer.print_operand(self.rhs)
        if self.fastmath.data:
            printer.print_string(" fastmath")
            self.fastmath.print_parameter(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.lhs.type)


@irdl_op_definition
class SelectOp(IRDLOperation):
    """Selects `lhs` where the condition is 1 and `rhs` where it is 0.

    The condition is an i1 that selects a whole value, or a vector of i1 of the values' shape that
    selects elementwise; its type is printed only in the second case.
    ```mlir
    %r = arith.select %c, %a, %b : f32
    %v = arith.select %m, %x, %y : vector<16xi1>, vector<16xf32>
    ```
    """

    name = "arith.select"

    _T: ClassVar = VarConstraint("_T", AnyAttr())
    cond = operand_def(_BOOL_LIKE)
    lhs = operand_def(_T)
    rhs = operand_def(_T)
    result = result_def(_T)

    traits = traits_def(Pure())

    def __init__(
        self,
        cond: SSAValue | Operation,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
    ):
        super().__init__(operands=[cond, lhs, rhs], result_types=[SSAValue.get(lhs).type])

    def verify_(self) -> None:
        if self.cond.type == i1:
            return
        if self.cond.type != bool_type_like(self.result.type):
            raise VerifyException(
                f"condition type {self.cond.type} should be i1 or {bool_type_like(self.lhs.type)}"
            )

    @classmethod
    def parse(cls, parser: Parser) -> SelectOp:
        operands = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            operands.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        first = parser.parse_type()
        if parser.parse_optional_punctuation(","):
            types = [first, value_type := parser.parse_type(), value_type]
        else:
            types = [i1, first, first]
        op = cls(*parser.resolve_operands(operands, types, parser.pos))
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if self.cond.type != i1:
            printer.print_attribute(self.cond.type)
            printer.print_string(", ")
        printer.print_attribute(self.result.type)


class CastOperation(IRDLOperation, ABC):
    """A conversion of each element of a scalar or vector: `op %x : from to to`."""

    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue | Operation, target_type: Attribute):
        super().__init__(operands=[operand], result_types=[target_type])

    def verify_(self) -> None:
        (source,), (target,) = self.operand_types, self.result_types
        if not have_compatible_shape(source, target):
            raise VerifyException(f"{source} and {target} have different shapes")
        self._verify_elements(get_element_type_or_self(source), get_element_type_or_self(target))

    def _verify_elements(self, source: Attribute, target: Attribute) -> None:
        """Raise VerifyException unless the op converts elements of type `source` to `target`."""


def _bit_width(type: Attribute) -> int:
    assert isinstance(type, FixedBitwidthType)
    return type.bitwidth


class _IntegerWidening(CastOperation, ABC):
    input = operand_def(_INTEGER_LIKE)
    result = result_def(_INTEGER_LIKE)

    def _verify_elements(self, source: Attribute, target: Attribute) -> None:
        if _bit_width(source) >= _bit_width(target):
            raise VerifyException(f"{target} should be wider than {source}")


@irdl_op_definition
class ExtSIOp(_IntegerWidening):
    """Sign-extends integers."""

    name = "arith.extsi"


@irdl_op_definition
class ExtUIOp(_IntegerWidening):
    """Zero-extends integers."""

    name = "arith.extui"


@irdl_op_definition
class RemFOp(FloatingPointLikeBinaryOperation):
    """Exact remainder of a float division truncated towards zero, like C's `fmod`.

    The result has the sign of the dividend and a smaller magnitude than the divisor.
    """

    name = "arith.remf"

    traits = traits_def(Pure())


@irdl_op_definition
class TruncIOp(CastOperation):
    """Truncates integers to their low bits."""

    name = "arith.trunci"

    input = operand_def(_INTEGER_LIKE)
    result = result_def(_INTEGER_LIKE)

    def _verify_elements(self, source: Attribute, target: Attribute) -> None:
        if _bit_width(source) <= _bit_width(target):
            raise VerifyException(f"{target} should be narrower than {source}")


class _FloatToInteger(CastOperation, ABC):
    input = operand_def(_FLOAT_LIKE)
    result = result_def(_INTEGER_LIKE)


@irdl_op_definition
class FPToSIOp(_FloatToInteger):
    """Converts floats to signed integers, rounding towards zero; out of range is poison."""

    name = "arith.fptosi"


@irdl_op_definition
class FPToUIOp(_FloatToInteger):
    """Converts floats to unsigned integers, rounding towards zero; out of range is poison."""

    name = "arith.fptoui"


class _IntegerToFloat(CastOperation, ABC):
    input = operand_def(_INTEGER_LIKE)
    result = result_def(_FLOAT_LIKE)


@irdl_op_definition
class SIToFPOp(_IntegerToFloat):
    """Converts signed integers to the nearest float."""

    name = "arith.sitofp"


@irdl_op_definition
class UIToFPOp(_IntegerToFloat):
    """Converts unsigned integers to the nearest float."""

    name = "arith.uitofp"


class _IndexConversion(CastOperation, ABC):
    input = operand_def(_INTEGER_OR_INDEX_LIKE)
    result = result_def(_INTEGER_OR_INDEX_LIKE)

    def _verify_elements(self, source: Attribute, target: Attribute) -> None:
        if isinstance(source, IndexType) == isinstance(target, IndexType):
            raise VerifyException(f"{source} to {target}: one of them should be index")


@irdl_op_definition
class IndexCastOp(_IndexConversion):
    """Converts between index and integers with sign extension or truncation."""

    name = "arith.index_cast"


@irdl_op_definition
class IndexCastUIOp(_IndexConversion):
    """Converts between index and integers with zero extension or truncation."""

    name = "arith.index_castui"


REPLACED: list[type[Operation]] = [
    CmpiOp,
    CmpfOp,
    RemFOp,
    SelectOp,
    ExtSIOp,
    ExtUIOp,
    TruncIOp,
    FPToSIOp,
    FPToUIOp,
    SIToFPOp,
    UIToFPOp,
    IndexCastOp,
    IndexCastUIOp,
]


add_traits(Arith)

_replaced_names = {op.name for op in REPLACED}

DIALECT = Dialect(
    "arith",
    [*(op for op in Arith.operations if op.name not in _replaced_names), *REPLACED],
    list(Arith.attributes),
    [ArithConstantMaterializationInterface()],
)
