"""simd: dot products of groups by target instructions, and bit packing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat, BFloat16Type, Float32Type, IntegerType, bf16, f32
from xdsl.ir import Attribute

from tcopt.backends.llvm.emit.emitter import FunctionEmitter
from tcopt.backends.llvm.emit.literals import literal
from tcopt.backends.llvm.emit.registry import emits
from tcopt.backends.llvm.emit.types import I32, LlvmType, element_of, lanes, llvm_type
from tcopt.backends.llvm.ops.vector import shuffle
from tcopt.dialects.simd import DotOp, PackBitsOp

_I8, _I16, _I32 = IntegerType(8), IntegerType(16), IntegerType(32)


@dataclass(frozen=True)
class DotInstruction:
    """A dot product instruction of some CPUs.

    Attributes:
        requires: the capabilities that a target must have.
        factors: element types of the factors and of the accumulator.
        unsigned: which factors are unsigned.
        group: number of products added to one element.
        widths: numbers of accumulator elements, widest first.
        name: returns LLVM's intrinsic for a width.
        element: element type of the factors in its signature.
        broadcast_last: whether the last operand is the one that can be broadcast from memory (one
            group for all lanes); `lhs` is then passed last.
        accumulates: whether it adds to an operand; otherwise a separate addition is emitted.
    """

    requires: frozenset[str]
    factors: tuple[Attribute, Attribute]
    unsigned: tuple[bool, bool]
    group: int
    widths: tuple[int, ...]
    name: Callable[[int], str]
    element: str
    broadcast_last: bool = False
    accumulates: bool = True


def _bits(text: str) -> Callable[[int], str]:
    """Return a function that inserts the vector width in bits into an intrinsic's name."""
    return lambda width: text.format(32 * width)


_X86, _ARM = "x86_64", "aarch64"
_SIGNED, _MIXED, _UNSIGNED = (False, False), (True, False), (True, True)
_NEON = "llvm.aarch64.neon.{}.v4i32.v16i8"
_BUSD = _bits("llvm.x86.avx512.vpdpbusd.{}")
_WSSD = _bits("llvm.x86.avx512.vpdpwssd.{}")
_MADD = {
    16: "llvm.x86.avx512.pmaddw.d.512",
    8: "llvm.x86.avx2.pmadd.wd",
    4: "llvm.x86.sse2.pmadd.wd",
}


def _pairs(widths: tuple[int, ...], *requires: str) -> DotInstruction:
    """Dot product of 16-bit integers in pairs."""
    needed = frozenset({_X86, *requires})
    kind, name = (_I16, _I32), _MADD.__getitem__
    return DotInstruction(needed, kind, _SIGNED, 2, widths, name, "i16", accumulates=False)


INSTRUCTIONS = (
    DotInstruction(
        frozenset({_X86, "avx512bf16", "avx512vl"}),
        (bf16, f32),
        _SIGNED,
        2,
        (16, 8, 4),
        _bits("llvm.x86.avx512bf16.dpbf16ps.{}"),
        "bfloat",
        broadcast_last=True,
    ),
    DotInstruction(
        frozenset({_ARM, "bf16"}),
        (bf16, f32),
        _SIGNED,
        2,
        (4,),
        lambda width: "llvm.aarch64.neon.bfdot.v4f32.v8bf16",
        "bfloat",
    ),
    DotInstruction(
        frozenset({_X86, "avx512vnni", "avx512vl"}),
        (_I8, _I32),
        _MIXED,
        4,
        (16, 8, 4),
        _BUSD,
        "i8",
    ),
    DotInstruction(frozenset({_X86, "avxvnni"}), (_I8, _I32), _MIXED, 4, (8, 4), _BUSD, "i8"),
    DotInstruction(
        frozenset({_X86, "avxvnniint8"}),
        (_I8, _I32),
        _SIGNED,
        4,
        (8, 4),
        _bits("llvm.x86.avx2.vpdpbssd.{}"),
        "i8",
    ),
    DotInstruction(
        frozenset({_ARM, "dotprod"}),
        (_I8, _I32),
        _SIGNED,
        4,
        (4,),
        lambda width: _NEON.format("sdot"),
        "i8",
    ),
    DotInstruction(
        frozenset({_ARM, "dotprod"}),
        (_I8, _I32),
        _UNSIGNED,
        4,
        (4,),
        lambda width: _NEON.format("udot"),
        "i8",
    ),
    DotInstruction(
        frozenset({_ARM, "i8mm"}),
        (_I8, _I32),
        _MIXED,
        4,
        (4,),
        lambda width: _NEON.format("usdot"),
        "i8",
    ),
    DotInstruction(
        frozenset({_X86, "avx512vnni", "avx512vl"}),
        (_I16, _I32),
        _SIGNED,
        2,
        (16, 8, 4),
        _WSSD,
        "i16",
    ),
    DotInstruction(frozenset({_X86, "avxvnni"}), (_I16, _I32), _SIGNED, 2, (8, 4), _WSSD, "i16"),
    _pairs((16, 8, 4), "avx512bw"),
    _pairs((8, 4), "avx2"),
    _pairs((4,)),
)


@emits(DotOp)
def emit_dot(e: FunctionEmitter, op: DotOp) -> None:
    """Use the target's instruction if there is one, else expand the products."""
    unsigned = (op.lhs_unsigned is not None, op.rhs_unsigned is not None)
    lhs, rhs = e.value(op.lhs), e.value(op.rhs)
    if unsigned == (False, True):
        lhs, rhs, unsigned = rhs, lhs, (True, False)
    count = max(lanes(op.acc.type), 1)
    scalar = llvm_type(element_of(op.acc.type))
    vector = f"<{count} x {scalar}>"
    acc = e.value(op.acc)
    if not lanes(op.acc.type):
        acc = e.assign(f"bitcast {scalar} {acc} to {vector}")
    instruction = _instruction(e, op, unsigned)
    if instruction is None:
        result = _written_out(e, op, acc, (lhs, rhs), unsigned)
    else:
        result = _in_pieces(e, instruction, scalar, (acc, lhs, rhs), count)
    if not lanes(op.acc.type):
        result = e.assign(f"bitcast {vector} {result} to {scalar}")
    e.define(op.result, result)


def dot_instruction(
    e: FunctionEmitter, factor: str, unsigned: tuple[bool, bool], group: int, width: int
) -> DotInstruction | None:
    """Return the instruction that adds groups of integers to a number of i32, if there is one.

    Args:
        factor: LLVM type of the factors.
        unsigned: which factors are unsigned.
        width: number of elements of the accumulator.
    """
    for each in INSTRUCTIONS:
        fits = each.factors[1] == _I32 and width in each.widths
        same = (each.element, each.unsigned, each.group) == (factor, unsigned, group)
        if fits and same and each.requires <= e.module.capabilities:
            return each
    return None


def _instruction(
    e: FunctionEmitter, op: DotOp, unsigned: tuple[bool, bool]
) -> DotInstruction | None:
    wanted = (element_of(op.lhs.type), element_of(op.acc.type)), unsigned, op.group
    for each in INSTRUCTIONS:
        have = each.requires <= e.module.capabilities
        if have and (each.factors, each.unsigned, each.group) == wanted:
            return each
    return None


def _in_pieces(
    e: FunctionEmitter,
    instruction: DotInstruction,
    scalar: str,
    operands: tuple[str, str, str],
    count: int,
) -> str:
    """Cover all elements by the widest instructions; unused lanes of the last are unspecified."""
    group, factor = instruction.group, llvm_type(instruction.factors[0])
    parts: list[tuple[str, int]] = []
    start = 0
    while start < count:
        rest = count - start
        width = next((w for w in instruction.widths if w <= rest), instruction.widths[-1])
        acc, lhs, rhs = (
            _part(e, value, element, per * count, per * start, per * width)
            for value, element, per in zip(
                operands, (scalar, factor, factor), (1, group, group), strict=True
            )
        )
        parts.append((call_dot(e, instruction, scalar, acc, lhs, rhs, width), width))
        start += width
    return _joined(e, scalar, parts, count)


def call_dot(
    e: FunctionEmitter,
    instruction: DotInstruction,
    scalar: str,
    acc: str,
    lhs: str,
    rhs: str,
    width: int,
) -> str:
    """Emit one instruction, and the addition if it does not accumulate; return the new sums."""
    held = f"<{instruction.group * width} x {llvm_type(instruction.factors[0])}>"
    taken = f"<{instruction.group * width} x {instruction.element}>"
    factors = [rhs, lhs] if instruction.broadcast_last else [lhs, rhs]
    if held != taken:
        factors = [e.assign(f"bitcast {held} {value} to {taken}") for value in factors]
    total = f"<{width} x {scalar}>"
    arguments = [(taken, value) for value in factors]
    if instruction.accumulates:
        arguments.insert(0, (total, acc))
    result = e.call_intrinsic(instruction.name(width), total, arguments)
    return result if instruction.accumulates else e.assign(f"add {total} {acc}, {result}")


def _part(e: FunctionEmitter, value: str, element: str, count: int, start: int, size: int) -> str:
    """Return `size` lanes from `start` of a vector of `count`; lanes after its end are poison."""
    if (start, size) == (0, count):
        return value
    mask = [lane if lane < count else -1 for lane in range(start, start + size)]
    return shuffle(e, f"<{count} x {element}>", value, "poison", mask)


def _joined(e: FunctionEmitter, scalar: str, parts: list[tuple[str, int]], count: int) -> str:
    """Concatenate vectors and return the first `count` lanes."""
    result, size = parts[0]
    for value, width in parts[1:]:
        widest = max(size, width)
        left = _part(e, result, scalar, size, 0, widest)
        right = _part(e, value, scalar, width, 0, widest)
        mask = [*range(size), *(widest + lane for lane in range(width))]
        result = shuffle(e, f"<{widest} x {scalar}>", left, right, mask)
        size += width
    return _part(e, result, scalar, size, 0, count)


def _written_out(
    e: FunctionEmitter,
    op: DotOp,
    acc: str,
    factors: tuple[str, str],
    unsigned: tuple[bool, bool],
) -> str:
    """Emit one multiply-add per element of the group, last element first as on x86."""
    narrow, wide = element_of(op.lhs.type), element_of(op.acc.type)
    group, count = op.group, max(lanes(op.acc.type), 1)
    source, total = llvm_type(op.lhs.type), LlvmType.vector(llvm_type(wide), count)
    for place in reversed(range(group)):
        mask = range(place, group * count, group)
        picked = [shuffle(e, source, value, "poison", mask) for value in factors]
        terms = [
            _widened(e, value, narrow, wide, count, flag)
            for value, flag in zip(picked, unsigned, strict=True)
        ]
        if isinstance(wide, AnyFloat):
            acc = e.unary_intrinsic("fma", total, *terms, acc)
        else:
            product = e.assign(f"mul {total} {terms[0]}, {terms[1]}")
            acc = e.assign(f"add {total} {acc}, {product}")
    return acc


def _widened(
    e: FunctionEmitter, value: str, narrow: Attribute, wide: Attribute, count: int, unsigned: bool
) -> str:
    source, target = f"<{count} x {llvm_type(narrow)}>", f"<{count} x {llvm_type(wide)}>"
    if isinstance(wide, IntegerType):
        return e.assign(f"{'zext' if unsigned else 'sext'} {source} {value} to {target}")
    if not isinstance(narrow, BFloat16Type):
        return e.assign(f"fpext {source} {value} to {target}")
    words = LlvmType.vector(I32, count)
    bits = e.assign(f"zext {source} {value} to {words}")
    high = e.assign(f"shl {words} {bits}, {literal(words, 16)}")
    single = f"<{count} x float>"
    result = e.assign(f"bitcast {words} {high} to {single}")
    if isinstance(wide, Float32Type):
        return result
    return e.assign(f"fpext {single} {result} to {target}")


@emits(PackBitsOp)
def emit_pack_bits(e: FunctionEmitter, op: PackBitsOp) -> None:
    """Emit one comparison per bit, whose mask is the word."""
    count, narrow = op.count, llvm_type(element_of(op.x.type))
    word = llvm_type(element_of(op.acc.type))
    numbers, mask = f"<{count} x {narrow}>", f"<{count} x i1>"
    x, acc = e.value(op.x), e.value(op.acc)
    words: list[str] = []
    for bit in range(op.bits):
        vector = LlvmType.vector(narrow, count)
        chosen = e.assign(f"and {numbers} {x}, {literal(vector, 1 << bit)}")
        flags = e.assign(f"icmp ne {numbers} {chosen}, zeroinitializer")
        value = e.assign(f"bitcast {mask} {flags} to i{count}")
        words.append(e.assign(f"zext i{count} {value} to {word}") if f"i{count}" != word else value)
    if not lanes(op.acc.type):
        e.define_result(op, f"add {word} {acc}, {words[0]}")
        return
    total = f"<{op.bits} x {word}>"
    made = "poison"
    for place, value in enumerate(words):
        made = e.assign(f"insertelement {total} {made}, {word} {value}, i32 {place}")
    e.define_result(op, f"add {total} {acc}, {made}")
