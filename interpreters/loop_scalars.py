"""Python expressions of the scalar ops in a loop body, for the loop interpreter.

Floats are Python floats (doubles, rounded when they are stored). Integers are exact and wrapped to
their width: signless and signed ones as signed, unsigned ones and i1 as unsigned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS, CMPI_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Attribute, Operation
from xdsl.utils.type import get_element_type_or_self

from tcopt.dialects.table import LookupOp, ScaleOp
from tcopt.interpreters.loop_runtime import UNARY_FUNCTIONS
from tcopt.support.data.dtypes import numpy_dtype

ScalarRule = Callable[[Operation, list[str]], str]


def is_unsigned(element: Attribute) -> bool:
    """Whether values of an integer type are represented as non-negative numbers."""
    return isinstance(element, IntegerType) and (
        element.width.data == 1 or element.signedness.data == Signedness.UNSIGNED
    )


def _width(element: Attribute) -> int:
    return element.width.data if isinstance(element, IntegerType) else 64


def wrap(text: str, element: Attribute) -> str:
    """Wrap an integer expression to the width of its type."""
    width = _width(element)
    if is_unsigned(element):
        return f"(({text}) & {(1 << width) - 1})"
    half = 1 << (width - 1)
    return f"((({text}) + {half} & {(1 << width) - 1}) - {half})"


def _element(op: Operation) -> Attribute:
    return get_element_type_or_self(op.results[0].type)


def _operand_element(op: Operation) -> Attribute:
    return get_element_type_or_self(op.operands[0].type)


def _unsigned(name: str, element: Attribute) -> str:
    return f"({name} & {(1 << _width(element)) - 1})"


def _plain(template: str) -> ScalarRule:
    return lambda op, names: template.format(*names)


def _wrapped(template: str) -> ScalarRule:
    return lambda op, names: wrap(template.format(*names), _element(op))


def _as_unsigned(template: str) -> ScalarRule:
    def rule(op: Operation, names: list[str]) -> str:
        element = _operand_element(op)
        text = template.format(*(_unsigned(n, element) for n in names))
        return wrap(text, _element(op))

    return rule


def _predicate(op: Operation, names: list[str]) -> str:
    predicate: Any = op.properties["predicate"]
    return names[predicate.value.data]


_SYMBOLS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _cmpi(op: Operation, names: list[str]) -> str:
    predicate = _predicate(op, CMPI_COMPARISON_OPERATIONS)
    if predicate.startswith("u"):
        names = [_unsigned(name, _operand_element(op)) for name in names]
    symbol = _SYMBOLS[predicate if predicate in _SYMBOLS else predicate[1:]]
    return f"int({names[0]} {symbol} {names[1]})"


def _cmpf(op: Operation, names: list[str]) -> str:
    predicate = _predicate(op, CMPF_COMPARISON_OPERATIONS)
    a, b = names
    if predicate in ("false", "true"):
        return str(int(predicate == "true"))
    unordered = f"({a} != {a} or {b} != {b})"
    if predicate == "ord":
        return f"int(not {unordered})"
    if predicate == "uno":
        return f"int{unordered}"
    compared = f"{a} {_SYMBOLS[predicate[1:]]} {b}"
    joined = f"{unordered} or {compared}" if predicate[0] == "u" else compared
    if predicate == "one":
        joined = f"not {unordered} and {compared}"
    return f"int({joined})"


def _rounding(op: Operation, names: list[str]) -> str:
    return f"_round({names[0]}, {numpy_dtype(_element(op)).name!r})"


def _to_int(op: Operation, names: list[str]) -> str:
    return wrap(f"_trunc({names[0]})", _element(op))


def _extui(op: Operation, names: list[str]) -> str:
    return _unsigned(names[0], _operand_element(op))


def _uitofp(op: Operation, names: list[str]) -> str:
    return f"float({_unsigned(names[0], _operand_element(op))})"


def _bitcast(op: Operation, names: list[str]) -> str:
    source, target = numpy_dtype(_operand_element(op)), numpy_dtype(_element(op))
    return f"_bitcast({names[0]}, {source.name!r}, {target.name!r})"


def _shift_right(op: Operation, names: list[str]) -> str:
    return wrap(f"{_unsigned(names[0], _element(op))} >> {names[1]}", _element(op))


def _scale(op: Operation, names: list[str]) -> str:
    assert isinstance(op, ScaleOp)
    element = _element(op)
    if isinstance(element, IntegerType):
        entries = tuple(int(entry) for entry in op.entries)
        return wrap(f"{names[0]} * {entries!r}[{names[1]}]", element)
    entry = f"{op.entries!r}[{names[1]}]"
    return f"({names[0]} * {entry} if {entry} else -0.0)"


def _lookup(op: Operation, names: list[str]) -> str:
    assert isinstance(op, LookupOp)
    return f"{op.entries!r}[{names[0]} & 255]"


SCALAR_RULES: dict[str, ScalarRule] = {
    "arith.addi": _wrapped("{} + {}"),
    "arith.subi": _wrapped("{} - {}"),
    "arith.muli": _wrapped("{} * {}"),
    "arith.divsi": _wrapped("_divsi({}, {})"),
    "arith.remsi": _wrapped("_remsi({}, {})"),
    "arith.floordivsi": _wrapped("{} // {}"),
    "arith.ceildivsi": _wrapped("-(-{} // {})"),
    "arith.divui": _as_unsigned("{} // {}"),
    "arith.remui": _as_unsigned("{} % {}"),
    "arith.ceildivui": _as_unsigned("-(-{} // {})"),
    "arith.minsi": _plain("min({}, {})"),
    "arith.maxsi": _plain("max({}, {})"),
    "arith.minui": _as_unsigned("min({}, {})"),
    "arith.maxui": _as_unsigned("max({}, {})"),
    "arith.andi": _plain("({} & {})"),
    "arith.ori": _plain("({} | {})"),
    "arith.xori": _plain("({} ^ {})"),
    "arith.shli": _wrapped("{} << {}"),
    "arith.shrsi": _plain("({} >> {})"),
    "arith.shrui": _shift_right,
    "arith.cmpi": _cmpi,
    "arith.cmpf": _cmpf,
    "arith.select": _plain("({1} if {0} else {2})"),
    "table.scale": _scale,
    "table.lookup": _lookup,
    "arith.addf": _plain("({} + {})"),
    "arith.subf": _plain("({} - {})"),
    "arith.mulf": _plain("({} * {})"),
    "arith.divf": _plain("_divf({}, {})"),
    "arith.remf": _plain("_remf({}, {})"),
    "arith.negf": _plain("(-{})"),
    "arith.maximumf": _plain("_maximum({}, {})"),
    "arith.minimumf": _plain("_minimum({}, {})"),
    "arith.maxnumf": _plain("_maxnum({}, {})"),
    "arith.minnumf": _plain("_minnum({}, {})"),
    "arith.extf": _plain("{}"),
    "arith.truncf": _rounding,
    "arith.extsi": _wrapped("{}"),
    "arith.extui": _extui,
    "arith.trunci": _wrapped("{}"),
    "arith.sitofp": _plain("float({})"),
    "arith.uitofp": _uitofp,
    "arith.fptosi": _to_int,
    "arith.fptoui": _to_int,
    "arith.index_cast": _wrapped("{}"),
    "arith.index_castui": _as_unsigned("{}"),
    "arith.bitcast": _bitcast,
    "math.absf": _plain("abs({})"),
    "math.absi": _wrapped("abs({})"),
    "math.fma": _plain("({} * {} + {})"),
    "math.copysign": _plain("_copysign({}, {})"),
    "math.powf": _plain("_powf({}, {})"),
    "math.atan2": _plain("_atan2({}, {})"),
    "vector.fma": _plain("({} * {} + {})"),
}

for _name in UNARY_FUNCTIONS:
    SCALAR_RULES[f"math.{_name}"] = _plain(f"_math_{_name}({{}})")
