"""Emission of the loop dialect's arithmetic as LLVM IR, op by op without any rewriting.

Elementary functions are the C library's, in double precision. 16-bit floats are computed in single
precision and rounded after each op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS, CMPI_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation
from xdsl.utils.type import get_element_type_or_self

from tcopt.dialects.table import LookupOp, ScaleOp
from tcopt.interpreters.meanings import meaning_of
from tcopt.interpreters.plain_meanings import emit_meaning
from tcopt.interpreters.plain_text import (
    PlainWriter,
    element_text,
    float_text,
    is_float_text,
    lanes_of,
    type_text,
)
from tcopt.support.errors import UnsupportedError

Rule = Callable[[PlainWriter, Operation, list[str]], str]
"""Emits an op; returns the LLVM value of its result, given the values of its operands."""


def _element(op: Operation) -> str:
    return element_text(get_element_type_or_self(op.results[0].type))


def _operand_element(op: Operation) -> str:
    return element_text(get_element_type_or_self(op.operands[0].type))


def _shaped(text: str, like: Attribute) -> str:
    """Return the LLVM type with elements `text` and the shape of another type."""
    lanes = lanes_of(like)
    return f"<{lanes} x {text}>" if type_text(like).startswith("<") else text


def _per_lane(
    w: PlainWriter, op: Operation, names: Sequence[str], compute: Callable[[list[str]], str]
) -> str:
    """Emit a computation element by element."""
    type_ = op.results[0].type
    if not type_text(type_).startswith("<"):
        return compute(list(names))
    count = lanes_of(type_)
    columns = [
        w.lanes(name, element_text(get_element_type_or_self(v.type)), count)
        if type_text(v.type).startswith("<")
        else [name] * count
        for name, v in zip(names, op.operands, strict=True)
    ]
    return w.gather([compute(list(row)) for row in zip(*columns, strict=True)], _element(op))


def _widened(text: str) -> str:
    return "float" if text in ("half", "bfloat") else text


def convert_float(w: PlainWriter, value: str, source: str, target: str, like: Attribute) -> str:
    """Convert a float, or a vector of floats shaped as `like`, to another precision."""
    if source == target:
        return value
    order = ("half", "bfloat", "float", "double")
    wider = order.index(target) > order.index(source)
    if {source, target} == {"half", "bfloat"}:
        value = w.assign(f"fpext {_shaped(source, like)} {value} to {_shaped('float', like)}")
        source, wider = "float", False
    word = "fpext" if wider else "fptrunc"
    return w.assign(f"{word} {_shaped(source, like)} {value} to {_shaped(target, like)}")


def _binary(word: str) -> Rule:
    return lambda w, op, names: w.assign(
        f"{word} {type_text(op.results[0].type)} {names[0]}, {names[1]}"
    )


def _floats(compute: Callable[[PlainWriter, str, list[str]], str]) -> Rule:
    """Return a rule on floats that computes in at least single precision."""

    def rule(w: PlainWriter, op: Operation, names: list[str]) -> str:
        like, text = op.results[0].type, _element(op)
        wide = _widened(text)
        wides = [convert_float(w, name, text, wide, like) for name in names]
        return convert_float(w, compute(w, _shaped(wide, like), wides), wide, text, like)

    return rule


def _float_binary(word: str) -> Rule:
    return _floats(lambda w, t, names: w.assign(f"{word} {t} {names[0]}, {names[1]}"))


def _flag_type(type_: str) -> str:
    return type_[: type_.index("x") + 2] + "i1>" if type_.startswith("<") else "i1"


def _extremum(compare: str, *, keeps_nan: bool) -> Rule:
    """Return a rule for the maximum or minimum; NaN is either propagated or ignored."""

    def compute(w: PlainWriter, t: str, names: list[str]) -> str:
        a, b = names
        flag = _flag_type(t)
        chosen = w.assign(f"fcmp {compare} {t} {a}, {b}")
        odd = w.assign(f"fcmp uno {t} {a}, {a}" if keeps_nan else f"fcmp uno {t} {b}, {b}")
        first = w.assign(f"or {flag} {chosen}, {odd}")
        return w.assign(f"select {flag} {first}, {t} {a}, {t} {b}")

    return _floats(compute)


def _integer_extremum(compare: str) -> Rule:
    def rule(w: PlainWriter, op: Operation, names: list[str]) -> str:
        t = type_text(op.results[0].type)
        flag = w.assign(f"icmp {compare} {t} {names[0]}, {names[1]}")
        return w.assign(f"select {_flag_type(t)} {flag}, {t} {names[0]}, {t} {names[1]}")

    return rule


def floor_divide(w: PlainWriter, a: str, b: str, t: str = "i64") -> tuple[str, str]:
    """Return the quotient rounded down, and the remainder with the divisor's sign."""
    quotient = w.assign(f"sdiv {t} {a}, {b}")
    rest = w.assign(f"srem {t} {a}, {b}")
    mixed = w.assign(f"xor {t} {rest}, {b}")
    negative = w.assign(f"icmp slt {t} {mixed}, 0")
    odd = w.assign(f"icmp ne {t} {rest}, 0")
    both = w.assign(f"and i1 {negative}, {odd}")
    less = w.assign(f"sub {t} {quotient}, 1")
    more = w.assign(f"add {t} {rest}, {b}")
    return (
        w.assign(f"select i1 {both}, {t} {less}, {t} {quotient}"),
        w.assign(f"select i1 {both}, {t} {more}, {t} {rest}"),
    )


def _floor_division(*, ceil: bool) -> Rule:
    def rule(w: PlainWriter, op: Operation, names: list[str]) -> str:
        t = _element(op)

        def compute(row: list[str]) -> str:
            if not ceil:
                return floor_divide(w, row[0], row[1], t)[0]
            negated = w.assign(f"sub {t} 0, {row[0]}")
            return w.assign(f"sub {t} 0, {floor_divide(w, negated, row[1], t)[0]}")

        return _per_lane(w, op, names, compute)

    return rule


def _ceildivui(w: PlainWriter, op: Operation, names: list[str]) -> str:
    t = type_text(op.results[0].type)
    quotient = w.assign(f"udiv {t} {names[0]}, {names[1]}")
    back = w.assign(f"mul {t} {quotient}, {names[1]}")
    short = w.assign(f"icmp ne {t} {back}, {names[0]}")
    return w.assign(f"add {t} {quotient}, {w.assign(f'zext {_flag_type(t)} {short} to {t}')}")


def _predicate(op: Operation, names: Sequence[str]) -> str:
    predicate = op.properties["predicate"]
    assert isinstance(predicate, IntegerAttr)
    return names[predicate.value.data]


def _cmpi(w: PlainWriter, op: Operation, names: list[str]) -> str:
    word = _predicate(op, CMPI_COMPARISON_OPERATIONS)
    return w.assign(f"icmp {word} {type_text(op.operands[0].type)} {names[0]}, {names[1]}")


def _cmpf(w: PlainWriter, op: Operation, names: list[str]) -> str:
    word = _predicate(op, CMPF_COMPARISON_OPERATIONS)
    return w.assign(f"fcmp {word} {type_text(op.operands[0].type)} {names[0]}, {names[1]}")


def _select(w: PlainWriter, op: Operation, names: list[str]) -> str:
    flag, t = type_text(op.operands[0].type), type_text(op.results[0].type)
    return w.assign(f"select {flag} {names[0]}, {t} {names[1]}, {t} {names[2]}")


def _cast(word: str) -> Rule:
    def rule(w: PlainWriter, op: Operation, names: list[str]) -> str:
        source, target = type_text(op.operands[0].type), type_text(op.results[0].type)
        if source == target:
            return names[0]
        return w.assign(f"{word} {source} {names[0]} to {target}")

    return rule


def _index_cast(word: str) -> Rule:
    def rule(w: PlainWriter, op: Operation, names: list[str]) -> str:
        bits = [int(text[1:]) for text in (_operand_element(op), _element(op))]
        if bits[0] == bits[1]:
            return names[0]
        return _cast("trunc" if bits[0] > bits[1] else word)(w, op, names)

    return rule


def _float_cast(w: PlainWriter, op: Operation, names: list[str]) -> str:
    return convert_float(w, names[0], _operand_element(op), _element(op), op.results[0].type)


def _to_float(word: str) -> Rule:
    def rule(w: PlainWriter, op: Operation, names: list[str]) -> str:
        like, text = op.results[0].type, _element(op)
        source, wide = type_text(op.operands[0].type), _widened(text)
        value = w.assign(f"{word} {source} {names[0]} to {_shaped(wide, like)}")
        return convert_float(w, value, wide, text, like)

    return rule


def _to_integer(signed: bool) -> Rule:
    """Return a rule that converts towards zero and saturates; NaN becomes 0."""
    word = "fptosi" if signed else "fptoui"

    def rule(w: PlainWriter, op: Operation, names: list[str]) -> str:
        like = op.results[0].type
        wide = _widened(_operand_element(op))
        value = convert_float(w, names[0], _operand_element(op), wide, like)
        source, target = _shaped(wide, like), type_text(like)
        name = f"llvm.{word}.sat.{_suffix(target)}.{_suffix(source)}"
        return w.call(name, target, [(source, value)])

    return rule


def _suffix(type_: str) -> str:
    """Return a type as in the name of an LLVM intrinsic."""
    scalar = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
    if type_.startswith("<"):
        count, _, element = type_[1:-1].split(" ")
        return f"v{count}{scalar.get(element, element)}"
    return scalar.get(type_, type_)


def _intrinsic(name: str) -> Rule:
    return _floats(
        lambda w, t, names: w.call(f"llvm.{name}.{_suffix(t)}", t, [(t, n) for n in names])
    )


def _library(name: str) -> Rule:
    """Return a rule that calls a function of the C library, in double precision."""

    def rule(w: PlainWriter, op: Operation, names: list[str]) -> str:
        text, scalar = _element(op), IndexType()

        def compute(row: list[str]) -> str:
            wides = [convert_float(w, n, text, "double", scalar) for n in row]
            result = w.call(name, "double", [("double", each) for each in wides])
            return convert_float(w, result, "double", text, scalar)

        return _per_lane(w, op, names, compute)

    return rule


def _rsqrt(w: PlainWriter, t: str, names: list[str]) -> str:
    root = w.call(f"llvm.sqrt.{_suffix(t)}", t, [(t, names[0])])
    one = float_text(1.0, t.split(" ")[-1].rstrip(">"))
    ones = w.splat(one, t.split(" ")[-1].rstrip(">"), int(t[1:].split()[0])) if "<" in t else one
    return w.assign(f"fdiv {t} {ones}, {root}")


def _absi(w: PlainWriter, op: Operation, names: list[str]) -> str:
    t = type_text(op.results[0].type)
    return w.call(f"llvm.abs.{_suffix(t)}", t, [(t, names[0]), ("i1", "false")])


def _scale(w: PlainWriter, op: Operation, names: list[str]) -> str:
    """Emit the product with a table entry; for floats, the result is -0.0 if the entry is 0."""
    assert isinstance(op, ScaleOp)
    like, text = op.results[0].type, _element(op)
    if isinstance(get_element_type_or_self(like), IntegerType):
        table = w.table([str(int(number)) for number in op.entries], text)
        pointer = w.assign(f"getelementptr {text}, ptr {table}, i64 {names[1]}")
        entry = w.assign(f"load {text}, ptr {pointer}")
        if (t := _shaped(text, like)) != text:
            entry = w.splat(entry, text, lanes_of(like))
        return w.assign(f"mul {t} {names[0]}, {entry}")
    wide = _widened(text)
    t = _shaped(wide, like)
    x = convert_float(w, names[0], text, wide, like)
    table = w.table([float_text(number, wide) for number in op.entries], wide)
    pointer = w.assign(f"getelementptr {wide}, ptr {table}, i64 {names[1]}")
    entry = w.assign(f"load {wide}, ptr {pointer}")
    absent = w.assign(f"fcmp oeq {wide} {entry}, {float_text(0.0, wide)}")
    zero = float_text(-0.0, wide)
    if t != wide:
        entry, zero = (w.splat(each, wide, lanes_of(like)) for each in (entry, zero))
    product = w.assign(f"fmul {t} {x}, {entry}")
    result = w.assign(f"select i1 {absent}, {t} {zero}, {t} {product}")
    return convert_float(w, result, wide, text, like)


def _lookup(w: PlainWriter, op: Operation, names: list[str]) -> str:
    """Emit the lookup of a byte in a table for each lane."""
    assert isinstance(op, LookupOp)
    table = w.table([str(entry) for entry in op.entries], "i8")

    def compute(row: list[str]) -> str:
        place = w.assign(f"zext i8 {row[0]} to i64")
        pointer = w.assign(f"getelementptr i8, ptr {table}, i64 {place}")
        return w.assign(f"load i8, ptr {pointer}")

    return _per_lane(w, op, names, compute)


RULES: dict[str, Rule] = {
    "arith.floordivsi": _floor_division(ceil=False),
    "arith.ceildivsi": _floor_division(ceil=True),
    "arith.ceildivui": _ceildivui,
    "arith.cmpi": _cmpi,
    "arith.cmpf": _cmpf,
    "arith.select": _select,
    "arith.negf": _floats(lambda w, t, names: w.assign(f"fneg {t} {names[0]}")),
    "arith.extf": _float_cast,
    "arith.truncf": _float_cast,
    "arith.extsi": _cast("sext"),
    "arith.extui": _cast("zext"),
    "arith.trunci": _cast("trunc"),
    "arith.bitcast": _cast("bitcast"),
    "arith.index_cast": _index_cast("sext"),
    "arith.index_castui": _index_cast("zext"),
    "arith.sitofp": _to_float("sitofp"),
    "arith.uitofp": _to_float("uitofp"),
    "arith.fptosi": _to_integer(True),
    "arith.fptoui": _to_integer(False),
    "arith.maximumf": _extremum("ogt", keeps_nan=True),
    "arith.minimumf": _extremum("olt", keeps_nan=True),
    "arith.maxnumf": _extremum("ogt", keeps_nan=False),
    "arith.minnumf": _extremum("olt", keeps_nan=False),
    "math.absf": _intrinsic("fabs"),
    "math.absi": _absi,
    "math.fma": _intrinsic("fma"),
    "math.copysign": _intrinsic("copysign"),
    "math.rsqrt": _floats(_rsqrt),
    "vector.fma": _intrinsic("fma"),
    "table.scale": _scale,
    "table.lookup": _lookup,
}
RULES |= {
    f"arith.{name}": _binary(word)
    for name, word in {
        "addi": "add", "subi": "sub", "muli": "mul", "divsi": "sdiv", "remsi": "srem",
        "divui": "udiv", "remui": "urem", "andi": "and", "ori": "or", "xori": "xor",
        "shli": "shl", "shrsi": "ashr", "shrui": "lshr",
    }.items()
}  # fmt: skip
RULES |= {
    f"arith.{name}": _integer_extremum(word)
    for name, word in {"minsi": "slt", "maxsi": "sgt", "minui": "ult", "maxui": "ugt"}.items()
}
RULES |= {
    f"arith.{word[1:]}f": _float_binary(word) for word in ("fadd", "fsub", "fmul", "fdiv", "frem")
}
RULES |= {
    f"math.{name}": _intrinsic(name)
    for name in ("sqrt", "floor", "ceil", "trunc", "round", "roundeven")
}
RULES |= {
    f"math.{name}": _library(name)
    for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "exp",
        "exp2", "expm1", "log", "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh", "atan2",
    )
}  # fmt: skip
RULES["math.powf"] = _library("pow")


def emit_scalar(w: PlainWriter, op: Operation, names: list[str]) -> str:
    """Emit an arithmetic op on scalars or vectors, or a third-party op; return its result.

    Raises:
        UnsupportedError: there is no rule for the op.
    """
    rule = RULES.get(op.name) if meaning_of(op) is None else emit_meaning
    if rule is None or len(op.results) != 1:
        raise UnsupportedError("the plain translation does not know this op", op=op)
    return rule(w, op, names)


__all__ = ["RULES", "emit_scalar", "floor_divide", "is_float_text"]
