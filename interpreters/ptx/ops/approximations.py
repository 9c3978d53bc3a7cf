"""Rules for roots, reciprocals and transcendental functions.

Devices approximate them; here they are computed to full precision.
"""

from __future__ import annotations

from tcopt.interpreters.ptx import types
from tcopt.interpreters.ptx.kernel_writer import PtxKernelWriter
from tcopt.interpreters.ptx.ops.arithmetic import finish, operands
from tcopt.interpreters.ptx.registry import executes
from tcopt.interpreters.ptx.text import PtxInstruction

_HIGH = 0xFFFFFFFF00000000
"""Mask of the high word of a double, the only one that f64 approximations read and write."""

_FUNCTIONS = {"ex2": "exp2", "lg2": "log2", "sin": "sin", "cos": "cos", "tanh": "tanh"}


@executes("sqrt", "rcp", "rsqrt")
def root(e: PtxKernelWriter, i: PtxInstruction) -> None:
    (value,) = operands(e, i, 1)
    type_, suffix = types.llvm_type(i.type), types.suffix(i.type)
    is_gross = i.type == "f64" and i.has("approx")
    if is_gross:
        value = _high(e, value)
    if i.opcode != "rcp":
        value = e.value(f"call {type_} @llvm.sqrt.{suffix}({type_} {value})")
    if i.opcode != "sqrt":
        value = e.value(f"fdiv {type_} {types.constant(1, i.type)}, {value}")
    finish(e, i, _high(e, value) if is_gross else value)


def _high(e: PtxKernelWriter, value: str) -> str:
    """Clear the low word of a double."""
    bits = e.value(f"bitcast double {value} to i64")
    return e.value(f"bitcast i64 {e.value(f'and i64 {bits}, {_HIGH}')} to double")


@executes(*_FUNCTIONS)
def function(e: PtxKernelWriter, i: PtxInstruction) -> None:
    (value,) = operands(e, i, 1)
    type_, suffix = types.llvm_type(i.type), types.suffix(i.type)
    name = _FUNCTIONS[i.opcode]
    finish(e, i, e.value(f"call {type_} @llvm.{name}.{suffix}({type_} {value})"))
