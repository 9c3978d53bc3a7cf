"""table: byte look-up with instructions that select among the bytes of registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from tcopt.backends.llvm.emit.emitter import FunctionEmitter
from tcopt.backends.llvm.emit.literals import literal
from tcopt.backends.llvm.emit.registry import emits
from tcopt.backends.llvm.emit.types import LlvmType, integer, lanes
from tcopt.backends.llvm.ops.vector import shuffle
from tcopt.dialects.table import BYTES, LookupOp

Entries = Sequence[int]
I8 = integer(8)


@dataclass(frozen=True)
class Instructions:
    """Byte look-up instructions of some CPUs.

    Attributes:
        requires: the capabilities that a target must have.
        width: bytes in a register.
        look_up: emits the look-up of a register of bytes.
    """

    requires: frozenset[str]
    width: int
    look_up: Callable[[FunctionEmitter, str, Entries], str]


def _part(entries: Entries, start: int, type: LlvmType) -> str:
    return literal(type, *entries[start : start + type.lanes])


def _by_vbmi(e: FunctionEmitter, places: str, entries: Entries) -> str:
    """`vpermi2b` selects among 128 bytes by seven bits; the eighth bit picks a result."""
    type = LlvmType.vector(I8, 64)
    halves = [
        e.call_intrinsic(
            "llvm.x86.avx512.vpermi2var.qi.512",
            type,
            [
                (type, _part(entries, start, type)),
                (type, places),
                (type, _part(entries, start + 64, type)),
            ],
        )
        for start in (0, 128)
    ]
    upper = e.assign(f"icmp slt {type} {places}, zeroinitializer")
    return e.assign(f"select <64 x i1> {upper}, {type} {halves[1]}, {type} {halves[0]}")


def _by_shuffles(name: str, width: int) -> Callable[[FunctionEmitter, str, Entries], str]:
    """Use an instruction that selects among 16 bytes, and returns zero for a negative index.

    The index decreases by 16 at each step and stays negative once it is. So a row of 16 entries
    contributes at every step up to the row of its index, and each row holds the xor with the
    previous one. Indices of the upper half of the table are negative as signed bytes, so the lower
    half ignores them; for the upper half, the top bit of all indices is flipped.
    """

    def look_up(e: FunctionEmitter, places: str, entries: Entries) -> str:
        type, result = LlvmType.vector(I8, width), ""
        for half in (0, BYTES // 2):
            place = places
            if half:
                place = e.assign(f"xor {type} {places}, {literal(type, -128)}")
            before = [0] * 16
            for start in range(half, half + BYTES // 2, 16):
                if start > half:
                    arguments = [(type, place), (type, literal(type, 16))]
                    place = e.call_intrinsic(f"llvm.ssub.sat.v{width}i8", type, arguments)
                row = [entry & 255 for entry in entries[start : start + 16]]
                changes = [new ^ old for new, old in zip(row, before, strict=True)]
                changes = [n - 256 if n > 127 else n for n in changes] * (width // 16)
                found = e.call_intrinsic(
                    name, type, [(type, literal(type, *changes)), (type, place)]
                )
                result = e.assign(f"xor {type} {result}, {found}") if result else found
                before = row
        return result

    return look_up


def _by_neon(e: FunctionEmitter, places: str, entries: Entries) -> str:
    """`tbl` selects among 64 bytes and returns zero beyond them; `tbx` keeps the previous value."""
    type = LlvmType.vector(I8, 16)
    result = ""
    for start in range(0, BYTES, 64):
        rows = [(type, _part(entries, start + 16 * n, type)) for n in range(4)]
        moved = places
        if start:
            moved = e.assign(f"sub {type} {places}, {literal(type, start)}")
        name, old = ("tbx4", [(type, result)]) if start else ("tbl4", [])
        arguments = [*old, *rows, (type, moved)]
        result = e.call_intrinsic(f"llvm.aarch64.neon.{name}.v16i8", type, arguments)
    return result


INSTRUCTIONS = (
    Instructions(frozenset({"x86_64", "avx512vbmi"}), 64, _by_vbmi),
    Instructions(
        frozenset({"x86_64", "avx512bw"}), 64, _by_shuffles("llvm.x86.avx512.pshuf.b.512", 64)
    ),
    Instructions(frozenset({"x86_64", "avx2"}), 32, _by_shuffles("llvm.x86.avx2.pshuf.b", 32)),
    Instructions(frozenset({"aarch64"}), 16, _by_neon),
)


@emits(LookupOp)
def emit_lookup(e: FunctionEmitter, op: LookupOp) -> None:
    """Look up registers of bytes by target instructions, else each byte in memory."""
    count, value = lanes(op.x.type), e.value(op.x)
    if not count:
        e.define(op.result, _from_memory(e, value, op.entries))
        return
    found = next((i for i in INSTRUCTIONS if i.requires <= e.module.capabilities), None)
    if found is None:
        e.define(op.result, _lane_by_lane(e, value, count, op.entries))
        return
    parts: list[str] = []
    type, register = LlvmType.vector(I8, count), LlvmType.vector(I8, found.width)
    for start in range(0, count, found.width):
        places = [n if n < count else -1 for n in range(start, start + found.width)]
        whole = count == found.width
        part = value if whole else shuffle(e, type, value, "poison", places)
        parts.append(found.look_up(e, part, op.entries))
    e.define(op.result, _joined(e, parts, register, count))


def _joined(e: FunctionEmitter, parts: Sequence[str], register: LlvmType, count: int) -> str:
    """Concatenate registers and return the first lanes."""
    width, have = register.lanes, list(parts)
    while len(have) > 1:
        type = LlvmType.vector(I8, width)
        if len(have) % 2:
            have.append("poison")
        pairs = zip(have[::2], have[1::2], strict=True)
        have = [shuffle(e, type, left, right, range(2 * width)) for left, right in pairs]
        width *= 2
    if width == count:
        return have[0]
    return shuffle(e, LlvmType.vector(I8, width), have[0], "poison", range(count))


def _from_memory(e: FunctionEmitter, place: str, entries: Entries) -> str:
    name = f"table_{sha256(bytes(n & 255 for n in entries)).hexdigest()[:16]}"
    listed = ", ".join(f"i8 {entry}" for entry in entries)
    text = f"@{name} = private unnamed_addr constant [{BYTES} x i8] [{listed}], align 64"
    e.module.globals[name] = text
    wide = e.assign(f"zext i8 {place} to i64")
    pointer = e.assign(f"getelementptr inbounds i8, ptr @{name}, i64 {wide}")
    return e.assign(f"load i8, ptr {pointer}, align 1")


def _lane_by_lane(e: FunctionEmitter, value: str, count: int, entries: Entries) -> str:
    type, result = LlvmType.vector(I8, count), "poison"
    for lane in range(count):
        place = e.assign(f"extractelement {type} {value}, i64 {lane}")
        entry = _from_memory(e, place, entries)
        result = e.assign(f"insertelement {type} {result}, i8 {entry}, i64 {lane}")
    return result
