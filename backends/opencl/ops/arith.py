"""arith: arithmetic, comparisons and choices, lane by lane."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from tcopt.backends.opencl.registry import writes
from tcopt.backends.opencl.types import (
    float_literal,
    integer_literal,
    unsigned,
    value_type,
)
from tcopt.backends.opencl.writer import PRECEDENCE, KernelWriter, Text
from tcopt.dialects import arith_
from tcopt.support.errors import UnsupportedError

_BINARY: dict[type[Operation], str] = {
    arith.AddfOp: "+",
    arith.SubfOp: "-",
    arith.MulfOp: "*",
    arith.DivfOp: "/",
    arith.AddiOp: "+",
    arith.SubiOp: "-",
    arith.MuliOp: "*",
    arith.DivSIOp: "/",
    arith.RemSIOp: "%",
    arith.AndIOp: "&",
    arith.OrIOp: "|",
    arith.XOrIOp: "^",
    arith.ShLIOp: "<<",
    arith.ShRSIOp: ">>",
}
_UNSIGNED: dict[type[Operation], str] = {
    arith.DivUIOp: "/",
    arith.RemUIOp: "%",
    arith.ShRUIOp: ">>",
}
_SIGNED_CALLS: dict[type[Operation], str] = {arith.MinSIOp: "min", arith.MaxSIOp: "max"}
_UNSIGNED_CALLS: dict[type[Operation], str] = {arith.MinUIOp: "min", arith.MaxUIOp: "max"}
_NUMBER_WINS: dict[type[Operation], str] = {arith.MinnumfOp: "fmin", arith.MaxnumfOp: "fmax"}
_NAN_WINS: dict[type[Operation], tuple[str, str]] = {
    arith.MinimumfOp: ("minimum", "fmin"),
    arith.MaximumfOp: ("maximum", "fmax"),
}


_LOGICAL = {"&": "&&", "|": "||", "^": "!="}
"""What combines truth values."""

_SYMBOLS = {cls.name: symbol for cls, symbol in (*_BINARY.items(), *_UNSIGNED.items())}
_CALLS = {
    cls.name: function
    for table in (_SIGNED_CALLS, _UNSIGNED_CALLS, _NUMBER_WINS)
    for cls, function in table.items()
}
_NAN_NAMES = {cls.name: names for cls, names in _NAN_WINS.items()}


@writes(arith.ConstantOp)
def write_constant(k: KernelWriter, op: arith.ConstantOp) -> None:
    k.define(op.result, literal(op.value, op.result.type))


def literal(value: Attribute, type: Attribute) -> Text:
    """A constant as C writes it."""
    if isinstance(value, DenseIntOrFPElementsAttr):
        assert isinstance(type, VectorType)
        numbers = value.get_values()
        unique = numbers[:1] if value.is_splat() else numbers
        listed = ", ".join(_number(number, type.element_type).text for number in unique)
        return Text(f"({value_type(type)})({listed})")
    assert isinstance(value, IntegerAttr | FloatAttr)
    return _number(value.value.data, type)


def _number(value: int | float, type: Attribute) -> Text:
    if isinstance(type, IndexType | IntegerType):
        text = integer_literal(int(value), type)
    else:
        text = float_literal(float(value), type)
    return Text(text, PRECEDENCE["unary"] if text.startswith("-") else 100)


@writes(*_BINARY)
def write_binary(k: KernelWriter, op: Operation) -> None:
    """C leaves open what becomes of signed sums that are too large, and computes narrow
    integers in `int`; here all of them wrap around."""
    type, symbol = get_element_type_or_self(op.results[0].type), _SYMBOLS[op.name]
    if value_type(op.results[0].type) == "bool":
        symbol = _LOGICAL.get(symbol, symbol)
    text = k.binary(symbol, *op.operands)
    if isinstance(type, IntegerType) and type.width.data > 1:
        if symbol in ("+", "-", "*") and type.width.data >= 32:
            level = PRECEDENCE[symbol]
            lhs, rhs = (as_unsigned(k, operand) for operand in op.operands)
            wrapped = Text(f"{lhs} {symbol} {rhs}", level)
            text = back_from_unsigned(wrapped, op.results[0].type)
        elif type.width.data < 32:
            name = value_type(op.results[0].type)
            text = Text(f"({name})({text.text})", PRECEDENCE["unary"])
    k.pure(op, text)


@writes(*_UNSIGNED)
def write_unsigned(k: KernelWriter, op: Operation) -> None:
    """Positions are not negative, so that signed division serves them as well."""
    lhs, rhs = op.operands
    if isinstance(lhs.type, IndexType):
        k.pure(op, k.binary(_SYMBOLS[op.name], lhs, rhs))
        return
    symbol, level = _SYMBOLS[op.name], PRECEDENCE[_SYMBOLS[op.name]]
    text = f"{as_unsigned(k, lhs)} {symbol} {as_unsigned(k, rhs)}"
    k.pure(op, back_from_unsigned(Text(text, level), lhs.type))


def as_unsigned(k: KernelWriter, value: SSAValue) -> str:
    """A value's bits as an unsigned number."""
    name = value_type(value.type)
    if unsigned(name) == name:
        return k.text(value, PRECEDENCE["unary"])
    text = k.text(value)
    return f"{text}u" if text.isdigit() and name == "int" else f"as_{unsigned(name)}({text})"


def back_from_unsigned(text: Text, type: Attribute) -> Text:
    """An unsigned result in the type that the value has."""
    name = value_type(type)
    # C computes in int what is narrower, so the bits are cut back to their width first.
    return text if unsigned(name) == name else Text(f"({name})({text.text})", PRECEDENCE["unary"])


@writes(*_SIGNED_CALLS, *_NUMBER_WINS)
def write_call(k: KernelWriter, op: Operation) -> None:
    k.pure(op, k.call(_CALLS[op.name], op.operands))


@writes(*_UNSIGNED_CALLS)
def write_unsigned_call(k: KernelWriter, op: Operation) -> None:
    listed = ", ".join(as_unsigned(k, operand) for operand in op.operands)
    text = Text(f"{_CALLS[op.name]}({listed})")
    k.pure(op, back_from_unsigned(text, op.results[0].type))


@writes(*_NAN_WINS)
def write_nan_wins(k: KernelWriter, op: Operation) -> None:
    """fmin and fmax leave NaN out; a helper lets it through, as the sum of both."""
    type = value_type(op.results[0].type)
    name, function = _NAN_NAMES[op.name]
    k.helpers.need(
        f"{name}_{type}",
        f"inline {type} {name}_{type}({type} a, {type} b) {{\n"
        f"  return isunordered(a, b) ? a + b : {function}(a, b);\n}}",
    )
    if isinstance(op.results[0].type, VectorType):
        raise UnsupportedError("vectors have no such form in OpenCL C", op=op)
    k.pure(op, k.call(f"{name}_{type}", op.operands))


@writes(arith.NegfOp)
def write_negf(k: KernelWriter, op: arith.NegfOp) -> None:
    level = PRECEDENCE["unary"]
    k.pure(op, Text(f"-{k.text(op.operand, level + 1)}", level))


@writes(arith.FloorDivSIOp)
def write_floordiv(k: KernelWriter, op: arith.FloorDivSIOp) -> None:
    _rounded_division(k, op, "floordiv", "(a % b != 0 && (a < 0) != (b < 0))", "-")


@writes(arith.CeilDivSIOp)
def write_ceildiv(k: KernelWriter, op: arith.CeilDivSIOp) -> None:
    _rounded_division(k, op, "ceildiv", "(a % b != 0 && (a < 0) == (b < 0))", "+")


def _rounded_division(k: KernelWriter, op: Operation, name: str, off: str, sign: str) -> None:
    type = value_type(op.results[0].type)
    k.helpers.need(
        f"{name}_{type}",
        f"inline {type} {name}_{type}({type} a, {type} b) {{\n  return a / b {sign} {off};\n}}",
    )
    k.pure(op, k.call(f"{name}_{type}", op.operands))


# Comparisons

_SIGNED = {"eq": "==", "ne": "!=", "slt": "<", "sle": "<=", "sgt": ">", "sge": ">="}
_UNSIGNED_ORDER = {"ult": "<", "ule": "<=", "ugt": ">", "uge": ">="}
_ORDERED = {"oeq": "==", "ogt": ">", "oge": ">=", "olt": "<", "ole": "<=", "une": "!="}
_NEGATED = {"ueq": "one", "ugt": "ole", "uge": "olt", "ult": "oge", "ule": "ogt"}


@writes(arith_.CmpiOp)
def write_cmpi(k: KernelWriter, op: arith_.CmpiOp) -> None:
    predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    if predicate in _SIGNED:
        k.pure(op, k.binary(_SIGNED[predicate], op.lhs, op.rhs))
        return
    symbol = _UNSIGNED_ORDER[predicate]
    texts = [as_unsigned(k, operand) for operand in (op.lhs, op.rhs)]
    k.pure(op, Text(f"{texts[0]} {symbol} {texts[1]}", PRECEDENCE[symbol]))


@writes(arith_.CmpfOp)
def write_cmpf(k: KernelWriter, op: arith_.CmpfOp) -> None:
    predicate = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    if predicate in ("true", "false"):
        k.pure(op, predicate)
    elif predicate in ("ord", "uno"):
        k.pure(op, k.call("isordered" if predicate == "ord" else "isunordered", op.operands))
    elif predicate == "one":
        k.pure(op, k.call("islessgreater", op.operands))
    elif predicate == "ueq":
        k.pure(op, Text(f"!{k.call('islessgreater', op.operands)}", PRECEDENCE["unary"]))
    elif predicate in _ORDERED:
        k.pure(op, k.binary(_ORDERED[predicate], op.lhs, op.rhs))
    else:
        inner = k.binary(_ORDERED[_NEGATED[predicate]], op.lhs, op.rhs)
        k.pure(op, Text(f"!({inner.text})", PRECEDENCE["unary"]))


@writes(arith_.SelectOp)
def write_select(k: KernelWriter, op: arith_.SelectOp) -> None:
    if isinstance(op.result.type, VectorType):
        raise UnsupportedError("a choice lane by lane has no form in OpenCL C yet", op=op)
    condition, then, other = op.operands
    level = PRECEDENCE["?"]
    text = f"{k.text(condition, level + 1)} ? {k.text(then, level + 1)} : {k.text(other, level)}"
    k.pure(op, Text(text, level))
