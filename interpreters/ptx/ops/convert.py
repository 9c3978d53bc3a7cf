"""Rules for conversions between types and address spaces."""

from __future__ import annotations

from tcopt.interpreters.ptx import types
from tcopt.interpreters.ptx.kernel_writer import ROUND_BF16, PtxKernelWriter
from tcopt.interpreters.ptx.ops.arithmetic import flushed, saturated
from tcopt.interpreters.ptx.registry import executes
from tcopt.interpreters.ptx.text import PtxInstruction

_WHOLE = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_WIDTHS = {"bf16": 32, "f16": 16, "f32": 32, "f64": 64}
"""Bits of the LLVM type that each float type is computed in."""


@executes("cvt")
def convert(e: PtxKernelWriter, i: PtxInstruction) -> None:
    if i.has("rz") or i.has("rm") or i.has("rp"):
        e.refuse("rounding")
    if i.modifiers[-2] in ("f16x2", "bf16x2"):
        _pack(e, i)
        return
    target, source = i.modifiers[-2:]
    value = e.read(i.scalar(1), source)
    if i.has("sat") and not (types.is_float(source) and types.is_float(target)):
        e.refuse("saturation")
    if types.is_float(source):
        value = flushed(e, source, value) if i.has("ftz") else value
        value = _rounded(e, i, value, source)
        if types.is_float(target):
            found = _float(e, value, source, target)
            found = saturated(e, target, found) if i.has("sat") else found
            e.write(i.scalar(0), target, flushed(e, target, found) if i.has("ftz") else found)
        else:
            e.write_bits(i.scalar(0), target, _integer(e, value, source, target))
    elif types.is_float(target):
        op = "sitofp" if types.is_signed(source) else "uitofp"
        wanted = types.llvm_type(target)
        e.write(i.scalar(0), target, e.value(f"{op} {types.integer(source)} {value} to {wanted}"))
    else:
        signed = types.is_signed(source)
        resized = e.resize(value, types.bits(source), types.bits(target), signed)
        e.write_bits(i.scalar(0), target, resized)


def _rounded(e: PtxKernelWriter, i: PtxInstruction, value: str, source: str) -> str:
    """Round a float to an integral value if the instruction has such a rounding mode."""
    name = next((_WHOLE[each] for each in _WHOLE if i.has(each)), None)
    if name is None:
        return value
    type_ = types.llvm_type(source)
    return e.value(f"call {type_} @llvm.{name}.{types.suffix(source)}({type_} {value})")


def _float(e: PtxKernelWriter, value: str, source: str, target: str) -> str:
    if _WIDTHS[source] == _WIDTHS[target]:
        return value
    if (source, target) == ("f64", "f16"):
        return e.value(f"call half @{e.helper(*_NARROW)}(double {value})")
    op = "fpext" if _WIDTHS[source] < _WIDTHS[target] else "fptrunc"
    return e.value(f"{op} {types.llvm_type(source)} {value} to {types.llvm_type(target)}")


_NARROW = (
    "ptx.narrow",
    """define internal half @ptx.narrow(double %x) alwaysinline {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %bits = bitcast float %near to i32
  %size = call double @llvm.fabs.f64(double %x)
  %back.size = call double @llvm.fabs.f64(double %back)
  %beyond = fcmp ogt double %back.size, %size
  %less = sub i32 %bits, 1
  %short = select i1 %beyond, i32 %less, i32 %bits
  %odd = or i32 %short, 1
  %inexact = fcmp one double %back, %x
  %chosen = select i1 %inexact, i32 %odd, i32 %bits
  %single = bitcast i32 %chosen to float
  %result = fptrunc float %single to half
  ret half %result
}""",
)
"""Helper function that converts f64 to f16. It goes through an f32 rounded to odd, which avoids
double rounding; on most CPUs LLVM would call a library function instead."""


def _integer(e: PtxKernelWriter, value: str, source: str, target: str) -> str:
    """Convert a float to an integer with saturation.

    NaN becomes 0, or, if the source or target has 64 bits, the integer with only its highest bit
    set.
    """
    sign = "s" if types.is_signed(target) else "u"
    result, type_ = types.integer(target), types.llvm_type(source)
    found = e.value(
        f"call {result} @llvm.fpto{sign}i.sat.{result}.{types.suffix(source)}({type_} {value})"
    )
    if source != "f64" and types.bits(target) != 64:
        return found
    is_nan = e.value(f"fcmp uno {type_} {value}, {value}")
    highest = 1 << (types.bits(target) - 1)
    return e.value(f"select i1 {is_nan}, {result} {highest}, {result} {found}")


def _pack(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Convert two floats and pack them into a word, the first one in the high half."""
    kind = i.modifiers[-2].removesuffix("x2")
    word = "0"
    for operand, shift in ((1, 16), (2, 0)):
        value = e.read(i.scalar(operand), i.type)
        if kind == "bf16":
            half = e.value(f"call i16 @{e.helper(*ROUND_BF16)}(float {value})")
        else:
            half = e.value(f"fptrunc {types.llvm_type(i.type)} {value} to half")
            half = e.value(f"bitcast half {half} to i16")
        wide = e.value(f"zext i16 {half} to i32")
        moved = e.value(f"shl i32 {wide}, {shift}")
        word = e.value(f"or i32 {word}, {moved}")
    e.write_bits(i.scalar(0), "b32", word)


@executes("cvta")
def convert_address(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Copy an address: generic addresses equal those in global and local memory.

    Shared memory has no generic addresses.
    """
    if i.has("shared"):
        e.refuse("generic addresses of shared memory")
    e.write_bits(i.scalar(0), "u64", e.bits(i.scalar(1), "u64"))
