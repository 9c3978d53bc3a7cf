"""math: OpenCL's built-in functions, with the accuracy of its specification."""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.ir import Operation

from tcopt.backends.opencl.emit.functions import FUNCTIONS
from tcopt.backends.opencl.emit.registry import writes
from tcopt.backends.opencl.emit.writer import OpenClWriter

_NAMES = {cls.name: function for cls, function in FUNCTIONS.items()}


@writes(*FUNCTIONS)
def write_function(k: OpenClWriter, op: Operation) -> None:
    k.pure(op, k.call(_NAMES[op.name], op.operands))


@writes(math.AbsIOp)
def write_absi(k: OpenClWriter, op: math.AbsIOp) -> None:
    """OpenCL's abs returns an unsigned integer; its bits are the result."""
    k.pure(op, f"as_{k.value_type(op.result.type)}({k.call('abs', op.operands)})")
