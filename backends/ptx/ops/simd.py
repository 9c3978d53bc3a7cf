"""simd: groups of four i8 become one `dp4a`; other dot products are expanded."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from tcopt.backends.llvm.emit.types import element_of, lanes, llvm_type
from tcopt.backends.llvm.ops.simd import emit_dot
from tcopt.backends.ptx.emitter import KernelEmitter
from tcopt.backends.ptx.registry import emits_ptx
from tcopt.dialects.simd import DotOp

_I8, _I32 = IntegerType(8), IntegerType(32)
_GROUP = 4


@emits_ptx(DotOp)
def emit_dp4a(e: KernelEmitter, op: DotOp) -> None:
    types = (element_of(op.lhs.type), element_of(op.acc.type))
    if types != (_I8, _I32) or op.group != _GROUP or not e.target.has("dp4a"):
        emit_dot(e, op)
        return
    count = lanes(op.acc.type)
    words = [_words(e, value, max(count, 1)) for value in (op.lhs, op.rhs)]
    signs = ".".join("s" if flag is None else "u" for flag in (op.lhs_unsigned, op.rhs_unsigned))
    name = f"llvm.nvvm.idp4a.{signs}"
    acc, total = e.value(op.acc), llvm_type(op.acc.type)
    if not count:
        arguments = [("i32", _lane(e, "<1 x i32>", word, 0)) for word in words]
        e.define(op.result, e.call_intrinsic(name, "i32", [*arguments, ("i32", acc)]))
        return
    result = "poison"
    for lane in range(count):
        arguments = [("i32", _lane(e, total, value, lane)) for value in (*words, acc)]
        sum = e.call_intrinsic(name, "i32", arguments)
        result = e.assign(f"insertelement {total} {result}, i32 {sum}, i32 {lane}")
    e.define(op.result, result)


def _words(e: KernelEmitter, value: SSAValue, count: int) -> str:
    """Bitcast groups of four bytes to words."""
    return e.assign(f"bitcast {llvm_type(value.type)} {e.value(value)} to <{count} x i32>")


def _lane(e: KernelEmitter, type: str, value: str, lane: int) -> str:
    return e.assign(f"extractelement {type} {value}, i32 {lane}")
