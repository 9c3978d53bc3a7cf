"""Multiply-adds of numbers and vectors: one instruction on every device that has one."""

from __future__ import annotations

from xdsl.dialects import math, vector

from tcopt.backends.opencl.emit.registry import writes
from tcopt.backends.opencl.emit.writer import KernelWriter

_FAST = {"half": "FP_FAST_FMA_HALF", "float": "FP_FAST_FMAF", "double": "FP_FAST_FMA"}
"""Macros of devices that say how fast `fma` is (OpenCL C, 6.13.2 and cl_khr_fp16)."""


@writes(math.FmaOp, vector.FMAOp)
def write_multiply_add(k: KernelWriter, op: math.FmaOp | vector.FMAOp) -> None:
    """A function in which the compiler may contract: not all who have the instruction define the
    macro, and `fma` takes long where there is none."""
    type = k.value_type(op.results[0].type)
    fast = _FAST[type.rstrip("0123456789")]
    k.helpers.need(
        f"fma_{type}",
        f"inline {type} fma_{type}({type} a, {type} b, {type} c)\n{{\n"
        f"#ifdef {fast}\n  return fma(a, b, c);\n"
        "#else\n#pragma OPENCL FP_CONTRACT ON\n  return a * b + c;\n#endif\n}",
    )
    k.pure(op, k.call(f"fma_{type}", op.operands))
