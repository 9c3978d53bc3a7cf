"""func: calls and returns. Functions themselves are emitted by `module.py`."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from tcopt.backends.llvm.emit.emitter import FunctionEmitter
from tcopt.backends.llvm.emit.names import symbol_of
from tcopt.backends.llvm.emit.registry import emits
from tcopt.backends.llvm.emit.stops import check_stop
from tcopt.backends.llvm.emit.types import llvm_type
from tcopt.backends.llvm.ops.scf import operand
from tcopt.support.errors import UnsupportedError


@emits(func.CallOp)
def emit_call(e: FunctionEmitter, op: func.CallOp) -> None:
    name = op.callee.string_value()
    arguments = ", ".join(f"{_type(v)} {operand(e, v)}" for v in op.operands)
    symbol = e.module.external.get(name) or symbol_of(name)
    if not op.results:
        e.write(f"  call void @{symbol}({arguments})")
        check_stop(e)
        return
    if len(op.results) > 1 or isinstance(op.results[0].type, MemRefType):
        raise UnsupportedError("calls return at most one value, which is not a memref", op=op)
    e.define_result(op, f"call {llvm_type(op.results[0].type)} @{symbol}({arguments})")


def _type(value: SSAValue) -> str:
    return llvm_type(value.type)


def emit_return(e: FunctionEmitter, op: func.ReturnOp) -> None:
    """Emit the function's `ret`."""
    if not op.operands:
        e.write("  ret void")
        return
    if len(op.operands) > 1 or isinstance(op.operands[0].type, MemRefType):
        raise UnsupportedError("functions return at most one value, which is not a memref", op=op)
    (value,) = op.operands
    e.write(f"  ret {llvm_type(value.type)} {e.value(value)}")
