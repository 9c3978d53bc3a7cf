"""Multiply-adds of scalars and vectors, as a single instruction on devices that have one."""

from __future__ import annotations

from xdsl.dialects import math, vector

from tcopt.backends.opencl.emit.registry import writes
from tcopt.backends.opencl.emit.writer import OpenClWriter

_FAST = {"half": "FP_FAST_FMA_HALF", "float": "FP_FAST_FMAF", "double": "FP_FAST_FMA"}
"""Macros by which devices announce a fast `fma` (OpenCL C, 6.13.2 and cl_khr_fp16)."""


@writes(math.FmaOp, vector.FMAOp)
def write_multiply_add(k: OpenClWriter, op: math.FmaOp | vector.FMAOp) -> None:
    """Call a function in which the compiler may contract: some devices have the instruction but
    do not define the macro, and `fma` is slow on devices without it."""
    type = k.value_type(op.results[0].type)
    fast = _FAST[type.rstrip("0123456789")]
    k.helpers.need(
        f"fma_{type}",
        f"inline {type} fma_{type}({type} a, {type} b, {type} c)\n{{\n"
        f"#ifdef {fast}\n  return fma(a, b, c);\n"
        "#else\n#pragma OPENCL FP_CONTRACT ON\n  return a * b + c;\n#endif\n}",
    )
    k.pure(op, k.call(f"fma_{type}", op.operands))
