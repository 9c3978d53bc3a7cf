"""simt: word-wise exchange of values within a warp, and its matrix products."""

from __future__ import annotations

from math import prod

from xdsl.dialects import gpu, vector
from xdsl.dialects.builtin import Float16Type
from xdsl.ir import Operation, SSAValue

from tcopt.backends.llvm.emit.types import element_of, lanes, pointer_in
from tcopt.backends.ptx.emitter import SHARED, KernelEmitter
from tcopt.backends.ptx.registry import emits_ptx
from tcopt.dialects.simt import ExchangeRowsOp, MmaSyncOp, ShuffleOp
from tcopt.passes.kernel.cleanup.effects import effects_of
from tcopt.support.errors import UnsupportedError

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


@emits_ptx(MmaSyncOp)
def emit_mma(e: KernelEmitter, op: MmaSyncOp) -> None:
    """Emit `mma.sync`, which takes pairs of f16 as vectors, and pairs of bf16 as words."""
    is_f16 = isinstance(element_of(op.lhs.type), Float16Type)
    pair, kind = ("<2 x half>", "f32.f32") if is_f16 else ("i32", "bf16")
    sizes = "".join(f"{letter}{size}" for letter, size in zip("mnk", op.sizes, strict=True))
    name = f"llvm.nvvm.mma.{sizes}.row.col.{kind}"
    sums = "<4 x float>", e.value(op.acc)
    arguments = [(pair, each) for v in (op.lhs, op.rhs) for each in _pairs(e, v, pair)]
    arguments += [
        ("float", e.assign(f"extractelement {sums[0]} {sums[1]}, i32 {number}"))
        for number in range(4)
    ]
    four = "{ float, float, float, float }"
    made = e.call_intrinsic(name, four, arguments)
    result = "poison"
    for number in range(4):
        one = e.assign(f"extractvalue {four} {made}, {number}")
        result = e.assign(f"insertelement {sums[0]} {result}, float {one}, i32 {number}")
    e.define(op.result, result)


def _pairs(e: KernelEmitter, value: SSAValue, pair: str) -> list[str]:
    """Return the pairs of neighbouring elements of a fragment."""
    type, count = e.type(value.type), lanes(value.type) // 2
    words = f"<{count} x i32>"
    whole = e.assign(f"bitcast {type} {e.value(value)} to {words}")
    found = [e.assign(f"extractelement {words} {whole}, i32 {at}") for at in range(count)]
    if pair == "i32":
        return found
    return [e.assign(f"bitcast i32 {word} to {pair}") for word in found]


@emits_ptx(ExchangeRowsOp)
def emit_exchange(e: KernelEmitter, op: ExchangeRowsOp) -> None:
    """Emit `ldmatrix` from the address of the loaded row; the load itself becomes dead."""
    row = op.row.owner
    if not isinstance(row, vector.LoadOp) or not _is_unchanged(row, op):
        raise UnsupportedError("the exchanged rows must be loaded immediately before", op=op)
    base, *indices = row.operands
    pointer, _ = e.address(base, indices)
    if e.pointer_type(pointer) != pointer_in(SHARED):
        raise UnsupportedError("the exchanged rows must be in shared memory", op=op)
    count = op.matrices
    way = ".trans" if op.transposed is not None else ""
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{way}.b16.p{SHARED}"
    made = "i32" if count == 1 else f"{{ {', '.join(['i32'] * count)} }}"
    loaded = e.call_intrinsic(name, made, [(e.pointer_type(pointer), pointer)])
    words, taken = f"<{count} x i32>", "poison"
    for number in range(count):
        word = loaded if count == 1 else e.assign(f"extractvalue {made} {loaded}, {number}")
        taken = e.assign(f"insertelement {words} {taken}, i32 {word}, i32 {number}")
    e.define(op.result, e.assign(f"bitcast {words} {taken} to {e.type(op.result.type)}"))


def _is_unchanged(load: vector.LoadOp, user: Operation) -> bool:
    """Whether nothing between a load and its user writes memory or synchronises."""
    op = load.next_op
    while op is not None and op is not user:
        if op.regions or isinstance(op, gpu.BarrierOp) or effects_of(op).writes:
            return False
        op = op.next_op
    return op is user


def _members(e: KernelEmitter) -> str:
    """Return the mask of the threads in a warp, without those that a small block lacks."""
    threads = prod(e.threads)
    return "-1" if threads >= e.target.warp.data else str((1 << threads) - 1)
