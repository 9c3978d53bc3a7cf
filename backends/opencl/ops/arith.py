"""arith: elementwise arithmetic, comparisons and selects."""

from __future__ import annotations

from collections.abc import Sequence

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

from tcopt.backends.opencl.emit.registry import writes
from tcopt.backends.opencl.emit.types import (
    float_literal,
    integer_literal,
    is_mask,
    lanes,
    mask_bits,
    mask_type,
    unsigned,
    value_type,
)
from tcopt.backends.opencl.emit.writer import PRECEDENCE, OpenClWriter, Text
from tcopt.dialects import arith_

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
"""Operators for booleans instead of bitwise operators."""

_SYMBOLS = {cls.name: symbol for cls, symbol in (*_BINARY.items(), *_UNSIGNED.items())}
_CALLS = {
    cls.name: function
    for table in (_SIGNED_CALLS, _UNSIGNED_CALLS, _NUMBER_WINS)
    for cls, function in table.items()
}
_NAN_NAMES = {cls.name: names for cls, names in _NAN_WINS.items()}


@writes(arith.ConstantOp)
def write_constant(k: OpenClWriter, op: arith.ConstantOp) -> None:
    k.define(op.result, literal(op.value, k.computed(op.result.type)))


def literal(value: Attribute, type: Attribute) -> Text:
    """Return a constant as a C literal."""
    if isinstance(value, DenseIntOrFPElementsAttr):
        assert isinstance(type, VectorType)
        numbers = value.get_values()
        unique = numbers[:1] if value.is_splat() else numbers
        if is_mask(type):
            return mask_literal([bool(number) for number in unique], lanes(type))
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


def mask_literal(bits: Sequence[bool], count: int) -> Text:
    """Return a mask literal with one value per lane, or one value for all lanes."""
    listed = ", ".join("-1" if bit else "0" for bit in bits)
    return Text(f"({mask_type(32, count)})({listed})")


@writes(*_BINARY)
def write_binary(k: OpenClWriter, op: Operation) -> None:
    """Make integers wrap around: signed overflow is undefined in C, and narrow integers are
    promoted to `int`."""
    type, symbol = get_element_type_or_self(op.results[0].type), _SYMBOLS[op.name]
    if is_mask(op.results[0].type):
        bits, level = k.mask_bits(op.operands[0]), PRECEDENCE[symbol]
        masks = [k.mask(operand, bits, level + 1) for operand in op.operands]
        k.pure(op, Text(f"{masks[0]} {symbol} {masks[1]}", level), bits)
        return
    if k.value_type(op.results[0].type) == "bool":
        symbol = _LOGICAL.get(symbol, symbol)
    text = k.binary(symbol, *op.operands)
    if isinstance(type, IntegerType) and type.width.data > 1:
        if symbol in ("+", "-", "*") and type.width.data >= 32:
            level = PRECEDENCE[symbol]
            lhs, rhs = (as_unsigned(k, operand) for operand in op.operands)
            wrapped = Text(f"{lhs} {symbol} {rhs}", level)
            text = back_from_unsigned(wrapped, op.results[0].type)
        elif type.width.data < 32 and not isinstance(op.results[0].type, VectorType):
            name = value_type(op.results[0].type)
            text = Text(f"({name})({text.text})", PRECEDENCE["unary"])
    k.pure(op, text)


@writes(*_UNSIGNED)
def write_unsigned(k: OpenClWriter, op: Operation) -> None:
    """Indices are non-negative, so signed division is correct for them."""
    lhs, rhs = op.operands
    if isinstance(lhs.type, IndexType):
        k.pure(op, k.binary(_SYMBOLS[op.name], lhs, rhs))
        return
    symbol, level = _SYMBOLS[op.name], PRECEDENCE[_SYMBOLS[op.name]]
    text = f"{as_unsigned(k, lhs)} {symbol} {as_unsigned(k, rhs)}"
    k.pure(op, back_from_unsigned(Text(text, level), lhs.type))


def as_unsigned(k: OpenClWriter, value: SSAValue) -> str:
    """Return the bits of a value as an unsigned integer."""
    name = value_type(value.type)
    if unsigned(name) == name:
        return k.text(value, PRECEDENCE["unary"])
    text = k.text(value)
    if name in ("char", "short"):
        # An inlined value, such as a constant, is an int, which wraps around when it is narrowed.
        return f"({unsigned(name)})({text})"
    return f"{text}u" if text.isdigit() and name == "int" else f"as_{unsigned(name)}({text})"


def back_from_unsigned(text: Text, type: Attribute) -> Text:
    """Convert an unsigned result back to the type of the value."""
    name = value_type(type)
    if isinstance(type, VectorType) and unsigned(name) != name:
        return Text(f"as_{name}({text.text})")
    # C promotes narrow integers to int, so truncate the result to its width first.
    return text if unsigned(name) == name else Text(f"({name})({text.text})", PRECEDENCE["unary"])


@writes(*_SIGNED_CALLS, *_NUMBER_WINS)
def write_call(k: OpenClWriter, op: Operation) -> None:
    k.pure(op, k.call(_CALLS[op.name], op.operands))


@writes(*_UNSIGNED_CALLS)
def write_unsigned_call(k: OpenClWriter, op: Operation) -> None:
    listed = ", ".join(as_unsigned(k, operand) for operand in op.operands)
    text = Text(f"{_CALLS[op.name]}({listed})")
    k.pure(op, back_from_unsigned(text, op.results[0].type))


@writes(*_NAN_WINS)
def write_nan_wins(k: OpenClWriter, op: Operation) -> None:
    """fmin and fmax ignore NaN; a helper propagates it, as the sum of both operands."""
    type = k.value_type(op.results[0].type)
    name, function = _NAN_NAMES[op.name]
    chosen = f"isunordered(a, b) ? a + b : {function}(a, b)"
    if isinstance(op.results[0].type, VectorType):
        chosen = f"select({function}(a, b), a + b, isunordered(a, b))"
    k.helpers.need(
        f"{name}_{type}",
        f"inline {type} {name}_{type}({type} a, {type} b) {{\n  return {chosen};\n}}",
    )
    k.pure(op, k.call(f"{name}_{type}", op.operands))


@writes(arith.NegfOp)
def write_negf(k: OpenClWriter, op: arith.NegfOp) -> None:
    level = PRECEDENCE["unary"]
    k.pure(op, Text(f"-{k.text(op.operand, level + 1)}", level))


@writes(arith.FloorDivSIOp)
def write_floordiv(k: OpenClWriter, op: arith.FloorDivSIOp) -> None:
    _rounded_division(k, op, "floordiv", "((a % b != 0) && ((a < 0) != (b < 0)))", "-")


@writes(arith.CeilDivSIOp)
def write_ceildiv(k: OpenClWriter, op: arith.CeilDivSIOp) -> None:
    _rounded_division(k, op, "ceildiv", "((a % b != 0) && ((a < 0) == (b < 0)))", "+")


def _rounded_division(k: OpenClWriter, op: Operation, name: str, off: str, sign: str) -> None:
    type = k.value_type(op.results[0].type)
    # A vector comparison returns -1 for true, a scalar comparison 1.
    is_vector = isinstance(op.results[0].type, VectorType)
    off = off.replace("&&", "&") if is_vector else off
    sign = {"-": "+", "+": "-"}[sign] if is_vector else sign
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
def write_cmpi(k: OpenClWriter, op: arith_.CmpiOp) -> None:
    predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    bits = mask_bits(op.lhs.type)
    if predicate in _SIGNED:
        k.pure(op, k.binary(_SIGNED[predicate], op.lhs, op.rhs), bits)
        return
    symbol = _UNSIGNED_ORDER[predicate]
    texts = [as_unsigned(k, operand) for operand in (op.lhs, op.rhs)]
    k.pure(op, Text(f"{texts[0]} {symbol} {texts[1]}", PRECEDENCE[symbol]), bits)


@writes(arith_.CmpfOp)
def write_cmpf(k: OpenClWriter, op: arith_.CmpfOp) -> None:
    predicate = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    bits = mask_bits(k.computed(op.lhs.type))
    negation = "~" if isinstance(op.lhs.type, VectorType) else "!"
    if predicate in ("true", "false"):
        holds = predicate == "true"
        k.pure(op, mask_literal([holds], lanes(op.result.type)) if negation == "~" else predicate)
    elif predicate in ("ord", "uno"):
        k.pure(op, k.call("isordered" if predicate == "ord" else "isunordered", op.operands), bits)
    elif predicate == "one":
        k.pure(op, k.call("islessgreater", op.operands), bits)
    elif predicate == "ueq":
        text = f"{negation}{k.call('islessgreater', op.operands)}"
        k.pure(op, Text(text, PRECEDENCE["unary"]), bits)
    elif predicate in _ORDERED:
        k.pure(op, k.binary(_ORDERED[predicate], op.lhs, op.rhs), bits)
    else:
        inner = k.binary(_ORDERED[_NEGATED[predicate]], op.lhs, op.rhs)
        k.pure(op, Text(f"{negation}({inner.text})", PRECEDENCE["unary"]), bits)


@writes(arith_.SelectOp)
def write_select(k: OpenClWriter, op: arith_.SelectOp) -> None:
    condition, then, other = op.operands
    if is_mask(condition.type):
        if is_mask(op.result.type):
            bits = k.mask_bits(condition)
            values = [k.mask(value, bits) for value in (other, then, condition)]
        else:
            bits = mask_bits(k.computed(op.result.type))
            values = [k.text(other), k.text(then), k.mask(condition, bits)]
        k.pure(op, f"select({', '.join(values)})", bits)
        return
    level = PRECEDENCE["?"]
    text = f"{k.text(condition, level + 1)} ? {k.text(then, level + 1)} : {k.text(other, level)}"
    k.pure(op, Text(text, level))
