"""arith: integer and float arithmetic, comparison and selection, on scalars and vectors.

Arithmetic on bf16 is done in f32 and rounded after each op, as on targets without native bf16; f16
is left to LLVM. Multiplications and additions are fused only if both have `fastmath<contract>`.
"""

from __future__ import annotations

from functools import cache
from math import gcd, isnan

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    i16,
    i32,
)
from xdsl.ir import Operation, SSAValue

from tcopt.backends.llvm.emit.emitter import FunctionEmitter
from tcopt.backends.llvm.emit.linear import LinearAddress
from tcopt.backends.llvm.emit.literals import Literal, dense_constant, literal, scalar_constant
from tcopt.backends.llvm.emit.registry import emits
from tcopt.backends.llvm.emit.types import I1, LlvmType, element_of, integer, lanes, llvm_type
from tcopt.backends.llvm.ops.casts import (
    computing_type,
    computing_value,
    exact_bf16,
    from_computing,
)
from tcopt.dialects import arith_
from tcopt.support.errors import UnsupportedError

_FLAG_ORDER = ("reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn")


@cache
def _flag_text(flags: frozenset[str]) -> str:
    if len(flags) == len(_FLAG_ORDER):
        return "fast "
    return "".join(f"{flag} " for flag in _FLAG_ORDER if flag in flags)


def fast_flags(op: Operation) -> str:
    """Return the op's fastmath flags as LLVM text with a trailing space, or an empty string."""
    attr = op.properties.get("fastmath") or op.attributes.get("fastmath")
    return _flag_text(attr.data) if isinstance(attr, arith.FastMathFlagsAttr) and attr.data else ""


@emits(arith.ConstantOp)
def emit_constant(e: FunctionEmitter, op: arith.ConstantOp) -> None:
    attr = op.properties["value"]
    result = op.results[0]
    if isinstance(attr, IntegerAttr) and isinstance(attr.type, IndexType):
        e.define_index(result, LinearAddress.constant(attr.value.data))
        e.define_constant(result, literal(e.index_type, attr.value.data))
    elif isinstance(attr, IntegerAttr | FloatAttr):
        e.define_constant(result, scalar_constant(attr))
    elif isinstance(attr, DenseIntOrFPElementsAttr) and lanes(result.type):
        e.define_constant(result, dense_constant(attr))
    else:
        raise UnsupportedError(f"constant of type {result.type}", op=op)


# Index arithmetic stays symbolic as long as it is linear.


@emits(arith.AddiOp)
def emit_addi(e: FunctionEmitter, op: arith.AddiOp) -> None:
    lhs, rhs = op.operands
    if isinstance(lhs.type, IndexType):
        e.define_index(op.results[0], e.index(lhs).plus(e.index(rhs)))
    else:
        _integer_binary(e, op, "add")


@emits(arith.SubiOp)
def emit_subi(e: FunctionEmitter, op: arith.SubiOp) -> None:
    lhs, rhs = op.operands
    if isinstance(lhs.type, IndexType):
        e.define_index(op.results[0], e.index(lhs).plus(e.index(rhs).scaled(-1)))
    else:
        _integer_binary(e, op, "sub")


@emits(arith.MuliOp)
def emit_muli(e: FunctionEmitter, op: arith.MuliOp) -> None:
    lhs, rhs = op.operands
    if isinstance(lhs.type, IndexType):
        left, right = e.index(lhs), e.index(rhs)
        if not left.terms:
            left, right = right, left
        if not right.terms:
            e.define_index(op.results[0], left.scaled(right.const))
            return
    name = _PAIRS.get(lanes(lhs.type)) if _are_words(op) else None
    if name is not None and name[0] <= e.module.capabilities:
        e.define(op.results[0], _product_of_words(e, op, name[1]))
        return
    _integer_binary(e, op, "mul")


_PAIRS = {
    16: (frozenset({"x86_64", "avx512bw"}), "llvm.x86.avx512.pmaddw.d.512"),
    8: (frozenset({"x86_64", "avx2"}), "llvm.x86.avx2.pmadd.wd"),
    4: (frozenset({"x86_64"}), "llvm.x86.sse2.pmadd.wd"),
}
"""Instructions that multiply pairs of 16-bit integers and add the products: lanes, required
capabilities and name."""


def _are_words(op: arith.MuliOp) -> bool:
    """Whether a 32-bit product is of vectors of sign-extended 16-bit integers."""
    return element_of(op.results[0].type) == i32 and all(
        isinstance(operand.owner, arith_.ExtSIOp) and element_of(operand.owner.input.type) == i16
        for operand in op.operands
    )


def _product_of_words(e: FunctionEmitter, op: arith.MuliOp, name: str) -> str:
    """Emit a product as pairs of a value and zero, with an instruction that is twice as fast as
    the 32-bit multiplication on some CPUs."""
    lhs, rhs = op.operands
    word = e.type(lhs.type)
    assert isinstance(lhs.owner, arith_.ExtSIOp)
    source = lhs.owner.input
    pairs = LlvmType.vector(integer(16), 2 * lanes(lhs.type))
    # Zero extension is correct for any sign: the upper half of the other operand is multiplied by
    # zero.
    wide = e.assign(f"zext {e.type(source.type)} {e.value(source)} to {word}")
    left = e.assign(f"bitcast {word} {wide} to {pairs}")
    right = e.assign(f"bitcast {word} {e.value(rhs)} to {pairs}")
    return e.call_intrinsic(name, word, [(pairs, left), (pairs, right)])


def _integer_binary(e: FunctionEmitter, op: Operation, instruction: str) -> None:
    lhs, rhs = op.operands
    type = e.type(lhs.type)
    e.define_result(op, f"{instruction} {type} {e.value(lhs)}, {e.value(rhs)}")


_INTEGER_BINARY = {
    arith.DivUIOp: "udiv",
    arith.DivSIOp: "sdiv",
    arith.RemUIOp: "urem",
    arith.RemSIOp: "srem",
    arith.AndIOp: "and",
    arith.OrIOp: "or",
    arith.XOrIOp: "xor",
    arith.ShLIOp: "shl",
    arith.ShRUIOp: "lshr",
    arith.ShRSIOp: "ashr",
}


@emits(*_INTEGER_BINARY)
def emit_integer_binary(e: FunctionEmitter, op: Operation) -> None:
    name = _INTEGER_NAMES[op.name]
    if isinstance(op.results[0].type, IndexType) and name in _QUOTIENTS:
        lhs, rhs = op.operands
        operands = f"{e.value(lhs)}, {e.value(rhs)}"
        e.define(op.results[0], e.assign_opaque(f"{name} {e.index_type} {operands}"))
        return
    _integer_binary(e, op, name)


_QUOTIENTS = ("udiv", "sdiv", "urem", "srem")
_INTEGER_NAMES = {cls.name: text for cls, text in _INTEGER_BINARY.items()}

_INTEGER_MIN_MAX = {
    arith.MinSIOp.name: "smin",
    arith.MaxSIOp.name: "smax",
    arith.MinUIOp.name: "umin",
    arith.MaxUIOp.name: "umax",
}


@emits(arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp)
def emit_integer_min_max(e: FunctionEmitter, op: Operation) -> None:
    lhs, rhs = op.operands
    type = e.type(lhs.type)
    name = _INTEGER_MIN_MAX[op.name]
    e.define(op.results[0], e.unary_intrinsic(name, type, e.value(lhs), e.value(rhs)))


@emits(arith.FloorDivSIOp)
def emit_floordivsi(e: FunctionEmitter, op: arith.FloorDivSIOp) -> None:
    """Truncated quotient, minus 1 if there is a remainder and the signs differ."""
    type = e.type(op.lhs.type)
    lhs, rhs = e.value(op.lhs), e.value(op.rhs)
    divisor = rhs.number if isinstance(rhs, Literal) else None
    if isinstance(divisor, int) and divisor > 0 and divisor.bit_count() == 1:
        shift = f"ashr {type} {lhs}, {literal(type, divisor.bit_length() - 1)}"
        is_index = isinstance(op.result.type, IndexType)
        e.define(op.result, e.assign_opaque(shift) if is_index else e.assign(shift))
        return
    quotient, remainder = _divide(e, type, lhs, rhs)
    mixed = e.assign(f"xor {type} {lhs}, {rhs}")
    negative = e.assign(f"icmp slt {type} {mixed}, {literal(type, 0)}")
    _adjust(e, op, quotient, remainder, negative, "sub")


@emits(arith.CeilDivSIOp)
def emit_ceildivsi(e: FunctionEmitter, op: arith.CeilDivSIOp) -> None:
    """Truncated quotient, plus 1 if there is a remainder and the signs are equal."""
    type = e.type(op.lhs.type)
    lhs, rhs = e.value(op.lhs), e.value(op.rhs)
    quotient, remainder = _divide(e, type, lhs, rhs)
    mixed = e.assign(f"xor {type} {lhs}, {rhs}")
    negative = e.assign(f"icmp sge {type} {mixed}, {literal(type, 0)}")
    _adjust(e, op, quotient, remainder, negative, "add")


@emits(arith.CeilDivUIOp)
def emit_ceildivui(e: FunctionEmitter, op: arith.CeilDivUIOp) -> None:
    """Unsigned quotient, plus 1 if there is a remainder."""
    type = e.type(op.lhs.type)
    lhs, rhs = e.value(op.lhs), e.value(op.rhs)
    quotient = e.assign(f"udiv {type} {lhs}, {rhs}")
    remainder = e.assign(f"urem {type} {lhs}, {rhs}")
    inexact = e.assign(f"icmp ne {type} {remainder}, {literal(type, 0)}")
    extra = e.assign(f"zext {type.of(I1)} {inexact} to {type}")
    e.define_result(op, f"add {type} {quotient}, {extra}")


def _divide(e: FunctionEmitter, type: LlvmType, lhs: str, rhs: str) -> tuple[str, str]:
    quotient = e.assign(f"sdiv {type} {lhs}, {rhs}")
    product = e.assign(f"mul {type} {quotient}, {rhs}")
    return quotient, e.assign(f"sub {type} {lhs}, {product}")


def _adjust(
    e: FunctionEmitter, op: Operation, quotient: str, remainder: str, when: str, change: str
) -> None:
    type = e.type(op.results[0].type)
    inexact = e.assign(f"icmp ne {type} {remainder}, {literal(type, 0)}")
    both = e.assign(f"and {type.of(I1)} {inexact}, {when}")
    extra = e.assign(f"zext {type.of(I1)} {both} to {type}")
    total = f"{change} {type} {quotient}, {extra}"
    is_index = isinstance(op.results[0].type, IndexType)
    e.define(op.results[0], e.assign_opaque(total) if is_index else e.assign(total))


@emits(arith.AddUIExtendedOp)
def emit_addui_extended(e: FunctionEmitter, op: arith.AddUIExtendedOp) -> None:
    type = e.type(op.lhs.type)
    total = e.assign(f"add {type} {e.value(op.lhs)}, {e.value(op.rhs)}")
    e.define(op.sum, total)
    e.define(op.overflow, e.assign(f"icmp ult {type} {total}, {e.value(op.lhs)}"))


@emits(arith.MulSIExtendedOp, arith.MulUIExtendedOp)
def emit_mul_extended(e: FunctionEmitter, op: arith.MulExtendedBase) -> None:
    narrow = e.type(op.lhs.type)
    width = int(narrow.element.removeprefix("i"))
    wide = narrow.of(integer(2 * width))
    extend = "sext" if isinstance(op, arith.MulSIExtendedOp) else "zext"
    left, right = (e.assign(f"{extend} {narrow} {e.value(v)} to {wide}") for v in (op.lhs, op.rhs))
    product = e.assign(f"mul {wide} {left}, {right}")
    e.define(op.low, e.assign(f"trunc {wide} {product} to {narrow}"))
    high = e.assign(f"lshr {wide} {product}, {literal(wide, width)}")
    e.define(op.high, e.assign(f"trunc {wide} {high} to {narrow}"))


# Floats


def _float_binary(e: FunctionEmitter, op: Operation, instruction: str) -> None:
    lhs, rhs = op.operands
    flags, type = fast_flags(op), computing_type(lhs.type)
    left, right = computing_value(e, lhs), computing_value(e, rhs)
    result = e.assign(f"{instruction} {flags}{type} {left}, {right}")
    e.define(op.results[0], from_computing(e, result, lhs.type))


_FLOAT_BINARY = {
    arith.AddfOp.name: "fadd",
    arith.SubfOp.name: "fsub",
    arith.MulfOp.name: "fmul",
    arith.DivfOp.name: "fdiv",
}


@emits(arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp)
def emit_float_binary(e: FunctionEmitter, op: Operation) -> None:
    _float_binary(e, op, _FLOAT_BINARY[op.name])


@emits(arith.NegfOp)
def emit_negf(e: FunctionEmitter, op: arith.NegfOp) -> None:
    type, operand = computing_type(op.operand.type), computing_value(e, op.operand)
    result = e.assign(f"fneg {fast_flags(op)}{type} {operand}")
    e.define(op.results[0], from_computing(e, result, op.operand.type))


_MIN_MAX: dict[str, tuple[str, bool]] = {
    arith.MaximumfOp.name: ("ogt", True),
    arith.MinimumfOp.name: ("olt", True),
    arith.MaxnumfOp.name: ("ogt", False),
    arith.MinnumfOp.name: ("olt", False),
}


@emits(arith.MaximumfOp, arith.MinimumfOp, arith.MaxnumfOp, arith.MinnumfOp)
def emit_float_min_max(e: FunctionEmitter, op: Operation) -> None:
    """Emit maximum and minimum as compare and select, which is one instruction on x86.

    maximumf and minimumf return NaN if either operand is NaN; maxnumf and minnumf return the other
    operand. The sign of a zero result is unspecified if the operands are zeros of different signs,
    whereas MLIR orders them.
    """
    predicate, keeps_nan = _MIN_MAX[op.name]
    lhs, rhs = op.operands
    flags = fast_flags(op)
    never_nan = "nnan" in flags or "fast" in flags
    type, operands = computing_type(lhs.type), [computing_value(e, v) for v in (lhs, rhs)]
    result = float_min_max(e, type, operands[0], operands[1], predicate, keeps_nan, never_nan)
    define_selected(e, op.results[0], result)


def define_selected(e: FunctionEmitter, value: SSAValue, result: str) -> None:
    """Define a value as one of the operands of its op, in their computing type."""
    is_bf16 = isinstance(element_of(value.type), BFloat16Type)
    e.define(value, exact_bf16(e, result, value.type) if is_bf16 else result)


def float_min_max(
    e: FunctionEmitter,
    type: LlvmType,
    lhs: str,
    rhs: str,
    predicate: str,
    keeps_nan: bool,
    never_nan: bool = False,
) -> str:
    """Return `lhs` where `lhs predicate rhs`, else `rhs`, with the requested treatment of NaN."""
    # An ordered comparison with a NaN is false and selects the second operand. So a non-NaN
    # constant is placed first to propagate the other operand's NaN, and second to drop it.
    if (_is_never_nan(lhs) and not keeps_nan) or (_is_never_nan(rhs) and keeps_nan):
        lhs, rhs = rhs, lhs
    condition = type.of(I1)
    better = e.assign(f"fcmp {predicate} {type} {lhs}, {rhs}")
    best = e.assign(f"select {condition} {better}, {type} {lhs}, {type} {rhs}")
    doubtful, replacement = (lhs, lhs) if keeps_nan else (rhs, lhs)
    if never_nan or _is_never_nan(doubtful):
        return best
    nan = e.assign(f"fcmp uno {type} {doubtful}, {literal(type, 0)}")
    return e.assign(f"select {condition} {nan}, {type} {replacement}, {type} {best}")


def _is_never_nan(operand: str) -> bool:
    numbers = operand.numbers if isinstance(operand, Literal) else None
    return numbers is not None and not any(map(isnan, numbers))


# Comparison and selection


@emits(arith_.CmpiOp)
def emit_cmpi(e: FunctionEmitter, op: arith_.CmpiOp) -> None:
    lhs, rhs = op.operands
    predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    e.define_result(op, f"icmp {predicate} {e.type(lhs.type)} {e.value(lhs)}, {e.value(rhs)}")


@emits(arith_.CmpfOp)
def emit_cmpf(e: FunctionEmitter, op: arith_.CmpfOp) -> None:
    predicate = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    _compare_floats(e, op, predicate)


def _compare_floats(e: FunctionEmitter, op: Operation, predicate: str) -> None:
    lhs, rhs = op.operands
    type = computing_type(lhs.type)
    left, right = computing_value(e, lhs), computing_value(e, rhs)
    e.define_result(op, f"fcmp {fast_flags(op)}{predicate} {type} {left}, {right}")


@emits(arith_.SelectOp)
def emit_select(e: FunctionEmitter, op: arith_.SelectOp) -> None:
    cond, lhs, rhs = op.operands
    if isinstance(lhs.type, IndexType):
        e.define_index(op.results[0], _selected_index(e, cond, lhs, rhs))
        return
    type = e.type(lhs.type)
    e.define_result(
        op,
        f"select {llvm_type(cond.type)} {e.value(cond)}, "
        f"{type} {e.value(lhs)}, {type} {e.value(rhs)}",
    )


def _selected_index(
    e: FunctionEmitter, cond: SSAValue, lhs: SSAValue, rhs: SSAValue
) -> LinearAddress:
    """Select one of two indices, as a multiple of their common divisor to keep the alignment."""
    left, right = e.index(lhs), e.index(rhs)
    if left == right:
        return left
    divisor = gcd(left.divisor, right.divisor)
    quotients = (e.materialize(each.divided(divisor)) for each in (left, right))
    type = e.index_type
    name = e.assign(f"select i1 {e.value(cond)}, " + ", ".join(f"{type} {q}" for q in quotients))
    return LinearAddress(((name, divisor),), 0)
