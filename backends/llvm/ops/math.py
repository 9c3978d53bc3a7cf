"""math: intrinsics if the CPU has instructions, else calls of the C library for each lane.

The pass `expand-math` replaces common transcendental functions by polynomials before; the
remaining ones are slow here, but complete. f16 and bf16 are computed in f32.
"""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float64Type
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.backends.llvm.emit.emitter import FunctionEmitter
from tcopt.backends.llvm.emit.literals import literal
from tcopt.backends.llvm.emit.registry import emits
from tcopt.backends.llvm.emit.types import LlvmType, element_of, lanes, llvm_type
from tcopt.backends.llvm.ops.arith import fast_flags
from tcopt.backends.llvm.ops.casts import bf16_to_f32, f32_to_bf16, f32_type_like
from tcopt.dialects import arith_

_INTRINSICS: dict[type[Operation], str] = {
    math.AbsFOp: "fabs",
    math.CeilOp: "ceil",
    math.CopySignOp: "copysign",
    math.FloorOp: "floor",
    math.FmaOp: "fma",
    math.RoundEvenOp: "roundeven",
    math.RoundOp: "round",
    math.SqrtOp: "sqrt",
    math.TruncOp: "trunc",
}
_INTRINSIC_NAMES = {cls.name: text for cls, text in _INTRINSICS.items()}

_LIBRARY: dict[type[Operation], str] = {
    math.AcosOp: "acos",
    math.AcoshOp: "acosh",
    math.AsinOp: "asin",
    math.AsinhOp: "asinh",
    math.AtanOp: "atan",
    math.Atan2Op: "atan2",
    math.AtanhOp: "atanh",
    math.CbrtOp: "cbrt",
    math.CosOp: "cos",
    math.CoshOp: "cosh",
    math.ErfOp: "erf",
    math.Exp2Op: "exp2",
    math.ExpOp: "exp",
    math.ExpM1Op: "expm1",
    math.Log10Op: "log10",
    math.Log1pOp: "log1p",
    math.Log2Op: "log2",
    math.LogOp: "log",
    math.PowFOp: "pow",
    arith_.RemFOp: "fmod",
    math.SinOp: "sin",
    math.SinhOp: "sinh",
    math.TanOp: "tan",
    math.TanhOp: "tanh",
}
_LIBRARY_NAMES = {cls.name: text for cls, text in _LIBRARY.items()}


def _as_single(e: FunctionEmitter, value: SSAValue) -> str:
    """Convert an f16 or bf16 operand to f32."""
    if isinstance(element_of(value.type), BFloat16Type):
        return bf16_to_f32(e, value)
    single = f32_type_like(value.type)
    return e.assign(f"fpext {llvm_type(value.type)} {e.value(value)} to {single}")


def _from_single(e: FunctionEmitter, value: str, type: Attribute) -> str:
    if isinstance(element_of(type), BFloat16Type):
        return f32_to_bf16(e, value, type)
    return e.assign(f"fptrunc {f32_type_like(type)} {value} to {llvm_type(type)}")


def _is_narrow(type: Attribute) -> bool:
    return isinstance(element_of(type), BFloat16Type | Float16Type)


def _widened(e: FunctionEmitter, op: Operation) -> tuple[LlvmType, list[str]]:
    """Return the LLVM type to compute in, and the operands in that type."""
    type = op.results[0].type
    if _is_narrow(type):
        return f32_type_like(type), [_as_single(e, v) for v in op.operands]
    return llvm_type(type), [e.value(v) for v in op.operands]


def _finish(e: FunctionEmitter, op: Operation, value: str) -> None:
    (result,) = op.results
    e.define(result, _from_single(e, value, result.type) if _is_narrow(result.type) else value)


@emits(*_INTRINSICS)
def emit_intrinsic(e: FunctionEmitter, op: Operation) -> None:
    type, operands = _widened(e, op)
    name = _INTRINSIC_NAMES[op.name]
    _finish(e, op, e.unary_intrinsic(name, type, *operands, flags=fast_flags(op)))


@emits(math.RsqrtOp)
def emit_rsqrt(e: FunctionEmitter, op: math.RsqrtOp) -> None:
    type, (operand,) = _widened(e, op)
    root = e.unary_intrinsic("sqrt", type, operand, flags=fast_flags(op))
    _finish(e, op, e.assign(f"fdiv {fast_flags(op)}{type} {literal(type, 1)}, {root}"))


@emits(*_LIBRARY)
def emit_library_call(e: FunctionEmitter, op: Operation) -> None:
    type, operands = _widened(e, op)
    is_double = isinstance(element_of(op.results[0].type), Float64Type)
    name = e.library_name(_LIBRARY_NAMES[op.name] + ("" if is_double else "f"))
    element = "double" if is_double else "float"
    e.declare(name, element, [element] * len(operands))
    count = lanes(op.results[0].type)
    _finish(e, op, _call_lanes(e, name, element, type, operands, count))


def _call_lanes(
    e: FunctionEmitter, name: str, element: str, type: str, operands: list[str], count: int
) -> str:
    """Call a scalar function, for vectors once per lane."""
    if not count:
        listed = ", ".join(f"{element} {operand}" for operand in operands)
        return e.assign(f"call {element} @{name}({listed})")
    result = "poison"
    for lane in range(count):
        scalars = [e.assign(f"extractelement {type} {v}, i64 {lane}") for v in operands]
        called = _call_lanes(e, name, element, element, scalars, 0)
        result = e.assign(f"insertelement {type} {result}, {element} {called}, i64 {lane}")
    return result


@emits(math.FPowIOp)
def emit_fpowi(e: FunctionEmitter, op: math.FPowIOp) -> None:
    """Raise a float to an integer power, by the float power function."""
    base, exponent = op.operands
    is_double = isinstance(element_of(base.type), Float64Type)
    type = llvm_type(base.type) if is_double else f32_type_like(base.type)
    element, name = ("double", "pow") if is_double else ("float", "powf")
    left = _as_single(e, base) if _is_narrow(base.type) else e.value(base)
    name = e.library_name(name)
    right = e.assign(f"sitofp {llvm_type(exponent.type)} {e.value(exponent)} to {type}")
    e.declare(name, element, [element, element])
    _finish(e, op, _call_lanes(e, name, element, type, [left, right], lanes(base.type)))


_INTEGER = {math.CountLeadingZerosOp.name: "ctlz", math.CountTrailingZerosOp.name: "cttz"}


@emits(math.CountLeadingZerosOp, math.CountTrailingZerosOp)
def emit_count_zeros(e: FunctionEmitter, op: Operation) -> None:
    _with_flag(e, op, _INTEGER[op.name])


@emits(math.AbsIOp)
def emit_absi(e: FunctionEmitter, op: math.AbsIOp) -> None:
    _with_flag(e, op, "abs")


def _with_flag(e: FunctionEmitter, op: Operation, name: str) -> None:
    """Call an integer intrinsic, with the argument that makes it defined for all inputs."""
    type = llvm_type(op.results[0].type)
    mangled = f"llvm.{name}.{type.mangled}"
    operand = e.value(op.operands[0])
    e.define(op.results[0], e.call_intrinsic(mangled, type, [(type, operand), ("i1", "false")]))


@emits(math.CtPopOp)
def emit_ctpop(e: FunctionEmitter, op: math.CtPopOp) -> None:
    type = llvm_type(op.results[0].type)
    e.define(op.results[0], e.unary_intrinsic("ctpop", type, e.value(op.operands[0])))
