"""arith: minimum and maximum of floats as one instruction."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Operation

from tcopt.backends.llvm.emit.types import DOUBLE
from tcopt.backends.llvm.ops.arith import define_selected, emit_float_min_max
from tcopt.backends.llvm.ops.casts import computing_type, computing_value
from tcopt.backends.ptx.emitter import KernelEmitter
from tcopt.backends.ptx.registry import emits_ptx

_INTRINSICS = {
    arith.MaximumfOp.name: "maximum",
    arith.MinimumfOp.name: "minimum",
    arith.MaxnumfOp.name: "maxnum",
    arith.MinnumfOp.name: "minnum",
}


@emits_ptx(arith.MaximumfOp, arith.MinimumfOp, arith.MaxnumfOp, arith.MinnumfOp)
def emit_min_max(e: KernelEmitter, op: Operation) -> None:
    """Emit an intrinsic if the device has it as an instruction, which f64 has not for NaN."""
    lhs, rhs = op.operands
    type = computing_type(lhs.type)
    if not e.is_ampere or type.of(DOUBLE) == type:
        emit_float_min_max(e, op)
        return
    operands = (computing_value(e, value) for value in (lhs, rhs))
    define_selected(e, op.results[0], e.unary_intrinsic(_INTRINSICS[op.name], type, *operands))
