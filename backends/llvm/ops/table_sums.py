"""simd.table_sum: entries of small tables, looked up for all bytes of a register and accumulated.

Entries are accumulated in bytes as long as these cannot overflow, then in 16-bit words: once as
even bytes plus 256 times their odd neighbours, and once as the odd neighbours alone, which are
subtracted at the end. So each look-up costs little more than one byte addition.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcopt.backends.llvm.emit.emitter import FunctionEmitter
from tcopt.backends.llvm.emit.literals import literal
from tcopt.backends.llvm.emit.registry import emits
from tcopt.backends.llvm.emit.types import LlvmType, element_of, integer, lanes, llvm_type
from tcopt.backends.llvm.ops.vector import shuffle
from tcopt.dialects.simd import LOW_BITS, TableSumOp

BYTE, WORD = 8, 16


@dataclass(frozen=True)
class TableInstruction:
    """An instruction that looks up bytes in a table of bytes.

    Attributes:
        requires: the capabilities that a target must have.
        entries: number of entries of a table.
        lanes: number of bytes looked up.
        name: LLVM's intrinsic.
        repeated: number of copies of the table in its register.
        hidden: whether to hide the contents of the table from LLVM.
    """

    requires: frozenset[str]
    entries: int
    lanes: int
    name: str
    repeated: int = 1
    hidden: bool = False


_X86, _ARM = "x86_64", "aarch64"

INSTRUCTIONS = (
    TableInstruction(
        frozenset({_X86, "avx512vbmi"}), 64, 64, "llvm.x86.avx512.permvar.qi.512", 1, True
    ),
    TableInstruction(frozenset({_X86, "avx512bw"}), 16, 64, "llvm.x86.avx512.pshuf.b.512", 4),
    TableInstruction(frozenset({_X86, "avx2"}), 16, 32, "llvm.x86.avx2.pshuf.b", 2),
    TableInstruction(frozenset({_X86, "ssse3"}), 16, 16, "llvm.x86.ssse3.pshuf.b.128"),
    TableInstruction(frozenset({_ARM}), 16, 16, "llvm.aarch64.neon.tbl1.v16i8"),
)
"""Widest first."""


@emits(TableSumOp)
def emit_table_sum(e: FunctionEmitter, op: TableSumOp) -> None:
    """Use a byte look-up instruction if one fits, else look up one entry at a time."""
    count = lanes(op.acc.type)
    for each in INSTRUCTIONS:
        fits = each.entries == op.entries and count and count % each.lanes == 0
        if fits and each.requires <= e.module.capabilities and _words_hold(op):
            _TableSum(e, op, each).emit()
            return
    _one_by_one(e, op)


def _words_hold(op: TableSumOp) -> bool:
    """Whether the sum over all planes fits in 16 bits."""
    most = op.groups * ((1 << sum(op.widths)) - 1)
    high = most * sum(w for w in op.weights if w > 0)
    low = most * sum(-w for w in op.weights if w < 0)
    if len(op.weights) == 1:
        return most < 1 << WORD
    return high < 1 << WORD if not low else max(high, low - 1) < 1 << (WORD - 1)


class _TableSum:
    """Emitter of one op with a look-up instruction, in pieces of that instruction's lanes."""

    def __init__(self, e: FunctionEmitter, op: TableSumOp, instruction: TableInstruction):
        self.e, self.op, self.by = e, op, instruction
        self.bytes = f"<{instruction.lanes} x i8>"
        self.words = LlvmType.vector(integer(WORD), instruction.lanes // 2)

    def emit(self) -> None:
        """Emit the op."""
        e, op, step = self.e, self.op, self.by.lanes
        tables = [self._table(position) for position in range(len(op.tables))]
        wide = llvm_type(element_of(op.acc.type))
        count = lanes(op.acc.type)
        total = e.value(op.acc)
        parts: list[str] = []
        for start in range(0, count, step):
            mask = range(start, start + step)
            indices = [
                value if count == step else shuffle(e, f"<{count} x i8>", value, "poison", mask)
                for value in map(self._index, op.indices)
            ]
            term, negative = self._terms(tables, indices, wide)
            part = total
            if count != step:
                part = shuffle(e, f"<{count} x {wide}>", total, "poison", mask)
            word = "sub" if negative else "add"
            parts.append(e.assign(f"{word} <{step} x {wide}> {part}, {term}"))
        while len(parts) > 1:
            size = step * (count // step // len(parts))
            pairs = zip(parts[::2], parts[1::2], strict=True)
            kind = f"<{size} x {wide}>"
            parts = [shuffle(e, kind, a, b, range(2 * size)) for a, b in pairs]
        e.define(op.result, parts[0])

    def _table(self, position: int) -> str:
        """Return a table, masked to its used bits and repeated as the instruction requires."""
        e, op = self.e, self.op
        width = op.widths[position % len(op.widths)]
        kind = LlvmType.vector(integer(BYTE), op.entries)
        value = e.value(op.tables[position])
        if width < BYTE:
            value = e.assign(f"and {kind} {value}, {literal(kind, (1 << width) - 1)}")
        if self.by.hidden:
            # LLVM would otherwise look up the mask as well, to apply it after the look-up.
            value = e.assign(f'call {kind} asm "", "=v,0"({kind} {value})')
        if self.by.repeated == 1:
            return value
        return shuffle(e, kind, value, "poison", [*range(op.entries)] * self.by.repeated)

    def _index(self, value: object) -> str:
        """Return indices, reduced modulo the number of entries if the instruction requires it."""
        e, op = self.e, self.op
        text = e.value(value)  # pyright: ignore[reportArgumentType]
        if op.entries == self.by.lanes:
            return text
        kind = LlvmType.vector(integer(BYTE), lanes(op.acc.type))
        return e.assign(f"and {kind} {text}, {literal(kind, op.entries - 1)}")

    def _terms(self, tables: list[str], indices: list[str], wide: str) -> tuple[str, bool]:
        """Return the term of each lane, and whether it is subtracted."""
        op, parts = self.op, len(self.op.widths)
        even = odd = ""
        for part, width in enumerate(op.widths):
            planes = [
                self._plane(
                    tables[part::parts], indices[j * op.groups : (j + 1) * op.groups], width
                )
                for j in range(len(op.weights))
            ]
            all_bytes = self._weighed([both for both, _ in planes])
            odd_bytes = self._weighed([high for _, high in planes])
            even_bytes = self._word("sub", all_bytes, self._shifted("shl", odd_bytes, BYTE))
            if part:
                even_bytes = self._shifted("shl", even_bytes, LOW_BITS * part)
                odd_bytes = self._shifted("shl", odd_bytes, LOW_BITS * part)
                even = self._word("add", even, even_bytes)
                odd = self._word("add", odd, odd_bytes)
            else:
                even, odd = even_bytes, odd_bytes
        half = self.by.lanes // 2
        mask = [
            lane for pair in zip(range(half), range(half, 2 * half), strict=True) for lane in pair
        ]
        both = shuffle(self.e, str(self.words), even, odd, mask)
        several = len(op.weights) > 1
        word = "sext" if several and op.signed is not None else "zext"
        result = self.e.assign(f"{word} <{2 * half} x i16> {both} to <{2 * half} x {wide}>")
        return result, not several and op.signed is not None

    def _plane(self, tables: list[str], indices: list[str], width: int) -> tuple[str, str]:
        """Return sums of whole words, including their high bytes, and sums of high bytes alone."""
        run = max(1, 255 // ((1 << width) - 1))
        found = [self._look_up(*each) for each in zip(tables, indices, strict=True)]
        both = high = ""
        for start in range(0, len(found), run):
            total = found[start]
            for each in found[start + 1 : start + run]:
                total = self.e.assign(f"add {self.bytes} {total}, {each}")
            words = self.e.assign(f"bitcast {self.bytes} {total} to {self.words}")
            moved = self._shifted("lshr", words, BYTE)
            both = self._word("add", both, words) if start else words
            high = self._word("add", high, moved) if start else moved
        return both, high

    def _look_up(self, table: str, index: str) -> str:
        return self.e.call_intrinsic(
            self.by.name, self.bytes, [(self.bytes, table), (self.bytes, index)]
        )

    def _weighed(self, planes: list[str]) -> str:
        """Combine the sums of the planes, weighted by powers of two, by Horner's rule."""
        total, sign = planes[-1], "sub" if self.op.signed is not None else "add"
        for each in reversed(planes[:-1]):
            total = self._word(sign, each, self._shifted("shl", total, 1))
            sign = "add"
        return total

    def _word(self, name: str, a: str, b: str) -> str:
        return self.e.assign(f"{name} {self.words} {a}, {b}")

    def _shifted(self, name: str, a: str, by: int) -> str:
        return self.e.assign(f"{name} {self.words} {a}, {literal(self.words, by)}")


def _one_by_one(e: FunctionEmitter, op: TableSumOp) -> None:
    """Emit each lane separately, and let LLVM keep the tables in memory or registers."""
    count = lanes(op.acc.type)
    wide = llvm_type(element_of(op.acc.type))
    table, kind = f"<{op.entries} x i8>", f"<{count} x {wide}>"
    total = e.value(op.acc)
    for lane in range(max(count, 1)):
        one = e.assign(f"extractelement {kind} {total}, i32 {lane}") if count else total
        for number, index in enumerate(op.indices):
            weight, group = op.weights[number // op.groups], number % op.groups
            at = e.value(index)
            if count:
                at = e.assign(f"extractelement <{count} x i8> {at}, i32 {lane}")
            at = e.assign(f"and i8 {at}, {op.entries - 1}")
            for part, width in enumerate(op.widths):
                value = e.value(op.tables[group * len(op.widths) + part])
                found = e.assign(f"extractelement {table} {value}, i8 {at}")
                found = e.assign(f"and i8 {found}, {(1 << width) - 1 - (256 if width == 8 else 0)}")
                found = e.assign(f"zext i8 {found} to {wide}")
                found = e.assign(f"mul {wide} {found}, {weight << (LOW_BITS * part)}")
                one = e.assign(f"add {wide} {one}, {found}")
        total = (
            e.assign(f"insertelement {kind} {total}, {wide} {one}, i32 {lane}") if count else one
        )
    e.define(op.result, total)
