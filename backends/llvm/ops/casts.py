"""arith: conversions between element types, on scalars and vectors.

Unless the target has an instruction for it, bf16 is converted by integer arithmetic: widening is
exact, narrowing rounds to nearest even and preserves NaN. LLVM's own bf16 conversions call library
functions on most CPUs, even where they are implicit, so a bf16 is an i16 here.
"""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import BFloat16Type, Float32Type, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.backends.llvm.emit.emitter import FunctionEmitter
from tcopt.backends.llvm.emit.literals import literal
from tcopt.backends.llvm.emit.registry import emits
from tcopt.backends.llvm.emit.types import (
    BFLOAT,
    FLOAT,
    I1,
    I16,
    I32,
    LlvmType,
    element_of,
    llvm_type,
)
from tcopt.dialects import arith_


def f32_type_like(type: Attribute) -> LlvmType:
    """Return the LLVM float type with the same number of lanes."""
    return llvm_type(type).of(FLOAT)


def bf16_to_f32(e: FunctionEmitter, value: SSAValue) -> str:
    """Convert a bf16 operand to f32, exactly."""
    type = value.type
    half, word = llvm_type(type).of(I16), llvm_type(type).of(I32)
    bits = e.assign(f"bitcast {llvm_type(type)} {e.value(value)} to {half}")
    wide = e.assign(f"zext {half} {bits} to {word}")
    shifted = e.assign(f"shl {word} {wide}, {literal(word, 16)}")
    return e.assign(f"bitcast {word} {shifted} to {f32_type_like(type)}")


def f32_to_bf16(e: FunctionEmitter, value: str, type: Attribute) -> str:
    """Round an f32 operand to the bf16 scalar or vector type, ties to even."""
    half, word, single, flag = (llvm_type(type).of(each) for each in (I16, I32, FLOAT, I1))
    if e.rounds_to_bf16:
        rounded = e.assign(f"fptrunc {single} {value} to {llvm_type(type).of(BFLOAT)}")
        return e.assign(f"bitcast {llvm_type(type).of(BFLOAT)} {rounded} to {llvm_type(type)}")
    bits = e.assign(f"bitcast {single} {value} to {word}")
    high = e.assign(f"lshr {word} {bits}, {literal(word, 16)}")
    odd = e.assign(f"and {word} {high}, {literal(word, 1)}")
    bias = e.assign(f"add {word} {odd}, {literal(word, 0x7FFF)}")
    rounded = e.assign(f"add {word} {bits}, {bias}")
    kept = e.assign(f"lshr {word} {rounded}, {literal(word, 16)}")
    quiet = e.assign(f"or {word} {high}, {literal(word, 0x40)}")
    is_nan = e.assign(f"fcmp uno {single} {value}, {value}")
    chosen = e.assign(f"select {flag} {is_nan}, {word} {quiet}, {word} {kept}")
    narrow = e.assign(f"trunc {word} {chosen} to {half}")
    return e.assign(f"bitcast {half} {narrow} to {llvm_type(type)}")


def exact_bf16(e: FunctionEmitter, value: str, type: Attribute) -> str:
    """Narrow an f32 operand to the bf16 type of which it is a value."""
    half, word, single = (llvm_type(type).of(each) for each in (I16, I32, FLOAT))
    bits = e.assign(f"bitcast {single} {value} to {word}")
    high = e.assign(f"lshr {word} {bits}, {literal(word, 16)}")
    narrow = e.assign(f"trunc {word} {high} to {half}")
    return e.assign(f"bitcast {half} {narrow} to {llvm_type(type)}")


def computing_type(type: Attribute) -> LlvmType:
    """Return the LLVM type in which arithmetic on a type is done: float for bf16, else its own."""
    is_bf16 = isinstance(element_of(type), BFloat16Type)
    return f32_type_like(type) if is_bf16 else llvm_type(type)


def computing_value(e: FunctionEmitter, value: SSAValue) -> str:
    """Return the operand of a value in its computing type."""
    is_bf16 = isinstance(element_of(value.type), BFloat16Type)
    return bf16_to_f32(e, value) if is_bf16 else e.value(value)


def from_computing(e: FunctionEmitter, value: str, type: Attribute) -> str:
    """Round an operand of a computing type to `type`."""
    return f32_to_bf16(e, value, type) if isinstance(element_of(type), BFloat16Type) else value


def _convert(e: FunctionEmitter, op: Operation, instruction: str) -> None:
    (source,), (result,) = op.operands, op.results
    e.define_result(
        op,
        f"{instruction} {e.type(source.type)} {e.value(source)} to {e.type(result.type)}",
    )


_PLAIN: dict[type[Operation], str] = {
    arith_.ExtSIOp: "sext",
    arith_.ExtUIOp: "zext",
    arith_.TruncIOp: "trunc",
    arith.BitcastOp: "bitcast",
}
_PLAIN_NAMES = {cls.name: text for cls, text in _PLAIN.items()}


@emits(*_PLAIN)
def emit_plain_cast(e: FunctionEmitter, op: Operation) -> None:
    _convert(e, op, _PLAIN_NAMES[op.name])


@emits(arith.ExtFOp)
def emit_extf(e: FunctionEmitter, op: arith.ExtFOp) -> None:
    if not isinstance(element_of(op.input.type), BFloat16Type):
        _convert(e, op, "fpext")
        return
    single = bf16_to_f32(e, op.input)
    if isinstance(element_of(op.result.type), Float32Type):
        e.define(op.result, single)
        return
    source, target = f32_type_like(op.input.type), llvm_type(op.result.type)
    e.define_result(op, f"fpext {source} {single} to {target}")


@emits(arith.TruncFOp)
def emit_truncf(e: FunctionEmitter, op: arith.TruncFOp) -> None:
    """Narrow floats; f64 to bf16 goes through f32, so it may round twice."""
    if not isinstance(element_of(op.result.type), BFloat16Type):
        _convert(e, op, "fptrunc")
        return
    value = e.value(op.input)
    if element_of(op.input.type) != f32:
        target = f32_type_like(op.input.type)
        value = e.assign(f"fptrunc {llvm_type(op.input.type)} {value} to {target}")
    e.define(op.result, f32_to_bf16(e, value, op.result.type))


_TO_FLOAT = {arith_.SIToFPOp.name: "sitofp", arith_.UIToFPOp.name: "uitofp"}
_TO_INTEGER = {arith_.FPToSIOp.name: "fptosi", arith_.FPToUIOp.name: "fptoui"}


@emits(arith_.SIToFPOp, arith_.UIToFPOp)
def emit_integer_to_float(e: FunctionEmitter, op: Operation) -> None:
    instruction = _TO_FLOAT[op.name]
    (source,), (result,) = op.operands, op.results
    if not isinstance(element_of(result.type), BFloat16Type):
        _convert(e, op, instruction)
        return
    single = e.assign(
        f"{instruction} {llvm_type(source.type)} {e.value(source)} to {f32_type_like(source.type)}"
    )
    e.define(result, f32_to_bf16(e, single, result.type))


@emits(arith_.FPToSIOp, arith_.FPToUIOp)
def emit_float_to_integer(e: FunctionEmitter, op: Operation) -> None:
    instruction = _TO_INTEGER[op.name]
    source = op.operands[0]
    if e.converts_to_nearest and isinstance(source.owner, math.RoundEvenOp) and _to_words(op):
        # Use one instruction that also rounds.
        number = source.owner.operand
        types = llvm_type(op.results[0].type), llvm_type(number.type)
        name = f"llvm.lrint.{types[0].mangled}.{types[1].mangled}"
        e.define(op.results[0], e.call_intrinsic(name, types[0], [(types[1], e.value(number))]))
        return
    if not isinstance(element_of(source.type), BFloat16Type):
        _convert(e, op, instruction)
        return
    target = llvm_type(op.results[0].type)
    e.define_result(
        op, f"{instruction} {f32_type_like(source.type)} {bf16_to_f32(e, source)} to {target}"
    )


def _to_words(op: Operation) -> bool:
    """Whether an op converts f32 to i32."""
    elements = element_of(op.operands[0].type), element_of(op.results[0].type)
    return isinstance(op, arith_.FPToSIOp) and elements == (f32, i32)


@emits(arith_.IndexCastOp, arith_.IndexCastUIOp)
def emit_index_cast(e: FunctionEmitter, op: Operation) -> None:
    """Casts between index and an equally wide integer are free; others extend or truncate."""
    (source,), (result,) = op.operands, op.results
    from_width, to_width = _integer_width(e, source.type), _integer_width(e, result.type)
    if from_width == to_width:
        e.define(result, e.value(source))
    elif from_width > to_width:
        _convert(e, op, "trunc")
    else:
        _convert(e, op, "zext" if op.name == arith_.IndexCastUIOp.name else "sext")


def _integer_width(e: FunctionEmitter, type: Attribute) -> int:
    return int(e.type(element_of(type))[1:])
