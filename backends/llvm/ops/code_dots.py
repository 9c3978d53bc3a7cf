"""simd.code_dot: products of the codes in words with bytes, by byte products where they are exact.

A mask isolates one code of each byte of all words. These bytes are multiplied by

- an instruction that adds groups of four products of bytes to 32 bits, or
- x86's `pmaddubsw`, which adds pairs in 16 bits: products of codes of up to four bits with bytes
  fit, even summed over all codes of a byte. One `pmaddwd` by ones widens the sum; or
- `pmaddwd` on every other byte, for codes of 8 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcopt.backends.llvm.emit.emitter import FunctionEmitter
from tcopt.backends.llvm.emit.literals import literal
from tcopt.backends.llvm.emit.registry import emits
from tcopt.backends.llvm.emit.types import I32, LlvmType, integer, lanes
from tcopt.backends.llvm.ops.simd import DotInstruction, call_dot, dot_instruction
from tcopt.backends.llvm.ops.vector import shuffle, splat_value
from tcopt.dialects.simd import CodeDotOp

_BYTE_PAIRS = (
    ("avx512bw", 16, "llvm.x86.avx512.pmaddubs.w.512"),
    ("avx2", 8, "llvm.x86.avx2.pmadd.ub.sw"),
    ("ssse3", 4, "llvm.x86.ssse3.pmadd.ub.sw.128"),
)
"""Instructions that add pairs of products of unsigned and signed bytes in 16 bits, by capability
and number of words. Sums saturate."""

_GROUP = 4
"""Bytes of a word."""


@emits(CodeDotOp)
def emit_code_dot(e: FunctionEmitter, op: CodeDotOp) -> None:
    """Use the first of the forms that the target has for this number of lanes."""
    count, bits = lanes(op.acc.type), op.bits.value.data
    acc, word, *factors = (e.value(operand) for operand in op.operands)
    dot = _CodeDot(e, word, factors, bits, max(count, 1))
    quads = (True, False), (False, False)
    found = [dot_instruction(e, "i8", flags, _GROUP, count) for flags in quads[: 1 + (bits < 8)]]
    instruction = next((each for each in found if each is not None), None)
    pairs = dot_instruction(e, "i16", (False, False), 2, count)
    name = next((n for c, w, n in _BYTE_PAIRS if w == count and c in e.module.capabilities), None)
    if instruction is not None:
        result = dot.by_quads(acc, instruction)
    elif pairs is not None and name is not None and bits < 8:
        result = dot.by_byte_pairs(acc, name, pairs)
    elif pairs is not None:
        result = dot.by_pairs(acc, pairs)
    else:
        result = dot.one_by_one(acc)
    e.define(op.result, result)


@dataclass(frozen=True)
class _CodeDot:
    """The operands of one dot product."""

    e: FunctionEmitter
    word: str
    factors: Sequence[str]
    bits: int
    count: int

    @property
    def words(self) -> LlvmType:
        return LlvmType.vector(I32, self.count) if self.count > 1 else I32

    def _codes(self, shift: int, mask: int) -> str:
        """Return the words shifted right, of which a mask selects some bits."""
        value = self.word
        if shift:
            value = self.e.assign(f"lshr {self.words} {value}, {literal(self.words, shift)}")
        if mask < 1 << 32 - 1 or shift:
            value = self.e.assign(f"and {self.words} {value}, {literal(self.words, mask)}")
        return value

    def _bytes(self, field: int) -> str:
        """Return one code of each byte, as bytes."""
        mask = ((1 << self.bits) - 1) * 0x01010101
        codes = self._codes(self.bits * field, mask)
        return self.e.assign(f"bitcast {self.words} {codes} to <{_GROUP * self.count} x i8>")

    def _spread(self, four: str, element: str, size: int) -> str:
        """Return a vector of 32 bits in all lanes, as elements of `size` in a word."""
        word = self.e.assign(f"bitcast <{size} x {element}> {four} to i32")
        words = splat_value(self.e, I32, word, self.count)
        return self.e.assign(f"bitcast {self.words} {words} to <{size * self.count} x {element}>")

    def by_quads(self, acc: str, instruction: DotInstruction) -> str:
        for field, factor in enumerate(self.factors):
            spread = self._spread(factor, "i8", _GROUP)
            acc = call_dot(self.e, instruction, "i32", acc, self._bytes(field), spread, self.count)
        return acc

    def by_byte_pairs(self, acc: str, name: str, pairs: DotInstruction) -> str:
        total, element = "", LlvmType.vector(integer(16), 2 * self.count)
        for field, factor in enumerate(self.factors):
            held = f"<{_GROUP * self.count} x i8>"
            arguments = [(held, self._bytes(field)), (held, self._spread(factor, "i8", _GROUP))]
            sums = self.e.call_intrinsic(name, element, arguments)
            total = self.e.assign(f"add {element} {total}, {sums}") if total else sums
        ones = literal(element, 1)
        return call_dot(self.e, pairs, "i32", acc, total, str(ones), self.count)

    def by_pairs(self, acc: str, pairs: DotInstruction) -> str:
        for field, factor in enumerate(self.factors):
            wide = self.e.assign(f"sext <4 x i8> {factor} to <4 x i16>")
            for odd in (0, 1):
                mask = ((1 << self.bits) - 1) * 0x00010001
                codes = self._codes(self.bits * field + 8 * odd, mask)
                held = self.e.assign(f"bitcast {self.words} {codes} to <{2 * self.count} x i16>")
                own = shuffle(self.e, "<4 x i16>", wide, "poison", [odd, 2 + odd])
                spread = self._spread(own, "i16", 2)
                acc = call_dot(self.e, pairs, "i32", acc, held, spread, self.count)
        return acc

    def one_by_one(self, acc: str) -> str:
        for field, factor in enumerate(self.factors):
            for place in range(_GROUP):
                codes = self._codes(8 * place + self.bits * field, (1 << self.bits) - 1)
                byte = self.e.assign(f"extractelement <4 x i8> {factor}, i64 {place}")
                value = self.e.assign(f"sext i8 {byte} to i32")
                if self.count > 1:
                    value = splat_value(self.e, I32, value, self.count)
                term = self.e.assign(f"mul {self.words} {codes}, {value}")
                acc = self.e.assign(f"add {self.words} {acc}, {term}")
        return acc
