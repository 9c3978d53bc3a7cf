"""simt: values handed on within a warp, a word at a time."""

from __future__ import annotations

from math import prod

from tcopt.backends.llvm.types import element_of, lanes
from tcopt.backends.ptx.emitter import KernelEmitter
from tcopt.backends.ptx.registry import emits_ptx
from tcopt.dialects.simt import ShuffleOp

_WORD = 32
_SHUFFLE = "llvm.nvvm.shfl.sync.bfly.i32"
_WIDTHS = {"half": 16, "float": 32, "double": 64}


@emits_ptx(ShuffleOp)
def emit_shuffle(e: KernelEmitter, op: ShuffleOp) -> None:
    type = e.type(op.value.type)
    element = e.type(element_of(op.value.type))
    width = _WIDTHS.get(element) or int(element[1:])
    bits = width * max(lanes(op.value.type), 1)
    whole = -(-bits // _WORD) * _WORD
    value = e.assign(f"bitcast {type} {e.value(op.value)} to i{bits}")
    if whole != bits:
        value = e.assign(f"zext i{bits} {value} to i{whole}")
    words = f"<{whole // _WORD} x i32>"
    given, taken = e.assign(f"bitcast i{whole} {value} to {words}"), "poison"
    for number in range(whole // _WORD):
        word = e.assign(f"extractelement {words} {given}, i32 {number}")
        numbers = (_members(e), word, str(op.distance), str(_WORD - 1))
        other = e.call_intrinsic(_SHUFFLE, "i32", [("i32", each) for each in numbers])
        taken = e.assign(f"insertelement {words} {taken}, i32 {other}, i32 {number}")
    result = e.assign(f"bitcast {words} {taken} to i{whole}")
    if whole != bits:
        result = e.assign(f"trunc i{whole} {result} to i{bits}")
    e.define(op.result, e.assign(f"bitcast i{bits} {result} to {type}"))


def _members(e: KernelEmitter) -> str:
    """The threads of a warp, as bits: all but those that a small block does not have."""
    threads = prod(e.threads)
    return "-1" if threads >= e.target.warp.data else str((1 << threads) - 1)
