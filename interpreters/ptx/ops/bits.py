"""Rules for bitwise logic, shifts, bit fields and byte permutations."""

from __future__ import annotations

from tcopt.interpreters.ptx import types
from tcopt.interpreters.ptx.kernel_writer import PtxKernelWriter
from tcopt.interpreters.ptx.registry import executes
from tcopt.interpreters.ptx.text import PtxInstruction


@executes("and", "or", "xor")
def logic(e: PtxKernelWriter, i: PtxInstruction) -> None:
    left, right = e.bits(i.scalar(1), i.type), e.bits(i.scalar(2), i.type)
    value = e.value(f"{i.opcode} {types.integer(i.type)} {left}, {right}")
    e.write_bits(i.scalar(0), i.type, value)


@executes("not")
def invert(e: PtxKernelWriter, i: PtxInstruction) -> None:
    value = e.bits(i.scalar(1), i.type)
    e.write_bits(i.scalar(0), i.type, e.value(f"xor {types.integer(i.type)} {value}, -1"))


@executes("shl", "shr")
def shift(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Shift by an amount that may exceed the width."""
    size, type_ = types.bits(i.type), types.integer(i.type)
    value = e.bits(i.scalar(1), i.type)
    amount = e.bits(i.scalar(2), "u32")
    largest = size - 1 if types.is_signed(i.type) else size
    # In 128 bits, a shift by the full width is defined in LLVM.
    least = e.value(f"call i32 @llvm.umin.i32(i32 {amount}, i32 {largest})")
    wide_amount = e.value(f"zext i32 {least} to i128")
    extend = "sext" if types.is_signed(i.type) else "zext"
    wide = e.value(f"{extend} {type_} {value} to i128")
    op = "shl" if i.opcode == "shl" else "ashr" if types.is_signed(i.type) else "lshr"
    moved = e.value(f"{op} i128 {wide}, {wide_amount}")
    e.write_bits(i.scalar(0), i.type, e.value(f"trunc i128 {moved} to {type_}"))


@executes("shf")
def funnel(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Shift a pair of words (funnel shift): `shf.l.wrap.b32 d, low, high, amount`."""
    low, high = e.bits(i.scalar(1), "b32"), e.bits(i.scalar(2), "b32")
    amount = e.bits(i.scalar(3), "b32")
    if i.has("wrap"):
        amount = e.value(f"and i32 {amount}, 31")
    else:
        amount = e.value(f"call i32 @llvm.umin.i32(i32 {amount}, i32 32)")
    wide = e.value(f"zext i32 {amount} to i64")
    both = _joined(e, low, high)
    if i.has("l"):
        moved = e.value(f"shl i64 {both}, {wide}")
        moved = e.value(f"lshr i64 {moved}, 32")
    else:
        moved = e.value(f"lshr i64 {both}, {wide}")
    e.write_bits(i.scalar(0), "b32", e.value(f"trunc i64 {moved} to i32"))


def _joined(e: PtxKernelWriter, low: str, high: str) -> str:
    """Concatenate two words to 64 bits."""
    left = e.value(f"zext i32 {high} to i64")
    left = e.value(f"shl i64 {left}, 32")
    right = e.value(f"zext i32 {low} to i64")
    return e.value(f"or i64 {left}, {right}")


@executes("prmt")
def permute(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Select four of eight bytes by 4-bit selectors; a selector's high bit replicates the sign of
    its byte."""
    if i.type != "b32" or len(i.modifiers) != 1:
        e.refuse("mode")
    low, high = (e.bits(i.scalar(n), "b32") for n in (1, 2))
    both = _joined(e, low, high)
    control = e.bits(i.scalar(3), "b32")
    result = "0"
    for byte in range(4):
        selector = e.value(f"lshr i32 {control}, {4 * byte}")
        which = e.value(f"and i32 {selector}, 7")
        amount = e.value(f"shl i32 {which}, 3")
        wide = e.value(f"zext i32 {amount} to i64")
        moved = e.value(f"lshr i64 {both}, {wide}")
        found = e.value(f"trunc i64 {moved} to i8")
        sign = e.value(f"ashr i8 {found}, 7")
        spread = e.value(f"and i32 {selector}, 8")
        is_sign = e.value(f"icmp ne i32 {spread}, 0")
        found = e.value(f"select i1 {is_sign}, i8 {sign}, i8 {found}")
        word = e.value(f"zext i8 {found} to i32")
        place = e.value(f"shl i32 {word}, {8 * byte}")
        result = e.value(f"or i32 {result}, {place}")
    e.write_bits(i.scalar(0), "b32", result)


@executes("bfe")
def extract(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Extract a bit field, which is sign-extended if the type is signed."""
    size, type_ = types.bits(i.type), types.integer(i.type)
    shift_right = "ashr" if types.is_signed(i.type) else "lshr"
    wide = e.value(
        f"{'sext' if types.is_signed(i.type) else 'zext'} {type_} "
        f"{e.bits(i.scalar(1), i.type)} to i128"
    )
    start, length = (_at_most(e, i.scalar(number), size) for number in (2, 3))
    field = e.value(f"{shift_right} i128 {wide}, {start}")
    # Shift out the bits above the field; two steps avoid a shift by 128 for an empty field.
    rest = e.value(f"sub i128 127, {length}")
    left = e.value(f"shl i128 {field}, {rest}")
    left = e.value(f"shl i128 {left}, 1")
    right = e.value(f"{shift_right} i128 {left}, {rest}")
    right = e.value(f"{shift_right} i128 {right}, 1")
    e.write_bits(i.scalar(0), i.type, e.value(f"trunc i128 {right} to {type_}"))


def _at_most(e: PtxKernelWriter, operand: str, most: int) -> str:
    """Return the low byte of an operand, clamped to `most`, as an i128."""
    byte = e.value(f"and i32 {e.bits(operand, 'u32')}, 255")
    least = e.value(f"call i32 @llvm.umin.i32(i32 {byte}, i32 {most})")
    return e.value(f"zext i32 {least} to i128")


@executes("lop3")
def table(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Compute a bitwise function of three operands, given by an immediate truth table."""
    words = [e.bits(i.scalar(number), "b32") for number in (1, 2, 3)]
    inverse = [e.value(f"xor i32 {word}, -1") for word in words]
    wanted, result = int(i.scalar(4).rstrip("Uu"), 0), "0"
    for row in range(8):
        if wanted >> row & 1:
            a, b, c = (words[n] if row >> (2 - n) & 1 else inverse[n] for n in range(3))
            both = e.value(f"and i32 {a}, {b}")
            term = e.value(f"and i32 {both}, {c}")
            result = e.value(f"or i32 {result}, {term}")
    e.write_bits(i.scalar(0), "b32", result)


@executes("popc", "clz", "brev")
def count(e: PtxKernelWriter, i: PtxInstruction) -> None:
    type_ = types.integer(i.type)
    value = e.bits(i.scalar(1), i.type)
    name = {"popc": "ctpop", "clz": "ctlz", "brev": "bitreverse"}[i.opcode]
    more = ", i1 false" if i.opcode == "clz" else ""
    found = e.value(f"call {type_} @llvm.{name}.{type_}({type_} {value}{more})")
    e.write_bits(i.scalar(0), i.type if i.opcode == "brev" else f"u{types.bits(i.type)}", found)
