"""Sums, products and quotients of integers and floating-point numbers."""

from __future__ import annotations

from tcopt.interpreters.ptx import types
from tcopt.interpreters.ptx.kernel_writer import KernelWriter
from tcopt.interpreters.ptx.registry import executes
from tcopt.interpreters.ptx.text import Instruction

_UNSUPPORTED = ("ftz", "sat", "rm", "rp", "cc", "x")


def _values(e: KernelWriter, i: Instruction, count: int) -> list[str]:
    """The operands after the result."""
    if any(map(i.has, _UNSUPPORTED)) and i.name not in ("rcp.approx.ftz.f32",):
        e.refuse("modifier")
    return [e.read(i.scalar(number + 1), i.type) for number in range(count)]


@executes("add", "sub")
def add(e: KernelWriter, i: Instruction) -> None:
    left, right = _values(e, i, 2)
    op = f"f{i.opcode}" if types.is_float(i.type) else i.opcode
    e.write(i.scalar(0), i.type, e.value(f"{op} {types.llvm_type(i.type)} {left}, {right}"))


@executes("mul", "mad")
def multiply(e: KernelWriter, i: Instruction) -> None:
    """A product, its high half, or a wide one; `mad` adds a third operand to it."""
    if types.is_float(i.type):
        if i.opcode == "mad":
            e.refuse("products of floats that are added")
        left, right = _values(e, i, 2)
        product = e.value(f"fmul {types.llvm_type(i.type)} {left}, {right}")
        e.write(i.scalar(0), i.type, product)
        return
    size = types.bits(i.type)
    left, right = _values(e, i, 2)
    result, type_ = i.type, f"i{size}"
    if i.has("wide") or i.has("hi"):
        extend = "sext" if types.is_signed(i.type) else "zext"
        wide = f"i{2 * size}"
        left, right = (e.value(f"{extend} {type_} {x} to {wide}") for x in (left, right))
        product = e.value(f"mul {wide} {left}, {right}")
        if i.has("hi"):
            high = e.value(f"lshr {wide} {product}, {size}")
            product = e.value(f"trunc {wide} {high} to {type_}")
        else:
            result, type_ = f"{i.type[0]}{2 * size}", wide
    else:
        product = e.value(f"mul {type_} {left}, {right}")
    if i.opcode == "mad":
        product = e.value(f"add {type_} {product}, {e.read(i.scalar(3), result)}")
    e.write_bits(i.scalar(0), result, product)


@executes("fma")
def fused(e: KernelWriter, i: Instruction) -> None:
    a, b, c = _values(e, i, 3)
    type_, suffix = types.llvm_type(i.type), types.suffix(i.type)
    value = e.value(f"call {type_} @llvm.fma.{suffix}({type_} {a}, {type_} {b}, {type_} {c})")
    if i.has("rz"):
        value = _toward_zero(e, i, value, a, b, c)
    e.write(i.scalar(0), i.type, value)


def _toward_zero(e: KernelWriter, i: Instruction, rounded: str, a: str, b: str, c: str) -> str:
    """The neighbour towards zero of a rounded value that is beyond the exact one."""
    if i.type != "f32":
        e.refuse("rounding towards zero")
    a, b, c = (e.value(f"fpext float {x} to double") for x in (a, b, c))
    # Doubles hold the product exactly.
    arguments = ", ".join(f"double {x}" for x in (a, b, c))
    exact = e.value(f"call double @llvm.fma.f64({arguments})")
    wide = e.value(f"fpext float {rounded} to double")
    sizes = [e.value(f"call double @llvm.fabs.f64(double {x})") for x in (wide, exact)]
    beyond = e.value(f"fcmp ogt double {sizes[0]}, {sizes[1]}")
    number = e.value(f"bitcast float {rounded} to i32")
    nearer = e.value(f"sub i32 {number}, 1")
    chosen = e.value(f"select i1 {beyond}, i32 {nearer}, i32 {number}")
    return e.value(f"bitcast i32 {chosen} to float")


@executes("div", "rem")
def divide(e: KernelWriter, i: Instruction) -> None:
    """A quotient; of integers, what a device gives for a divisor of 0 is not defined."""
    left, right = _values(e, i, 2)
    type_ = types.llvm_type(i.type)
    if types.is_float(i.type):
        e.write(i.scalar(0), i.type, e.value(f"fdiv {type_} {left}, {right}"))
        return
    sign = "s" if types.is_signed(i.type) else "u"
    zero = e.value(f"icmp eq {type_} {right}, 0")
    divisor = e.value(f"select i1 {zero}, {type_} 1, {type_} {right}")
    value = e.value(f"{sign}{i.opcode} {type_} {left}, {divisor}")
    e.write_bits(i.scalar(0), i.type, value)


@executes("min", "max")
def extreme(e: KernelWriter, i: Instruction) -> None:
    """The lesser or greater number; `NaN` says that it is NaN if one operand is."""
    left, right = _values(e, i, 2)
    type_ = types.llvm_type(i.type)
    name = f"{i.opcode}imum"
    if not types.is_float(i.type):
        name = f"{'s' if types.is_signed(i.type) else 'u'}{i.opcode}"
    elif not i.has("NaN"):
        name += "num"
    call = f"call {type_} @llvm.{name}.{types.suffix(i.type)}({type_} {left}, {type_} {right})"
    e.write(i.scalar(0), i.type, e.value(call))


@executes("neg")
def negate(e: KernelWriter, i: Instruction) -> None:
    (value,) = _values(e, i, 1)
    type_ = types.llvm_type(i.type)
    op = f"fneg {type_} " if types.is_float(i.type) else f"sub {type_} 0, "
    e.write(i.scalar(0), i.type, e.value(f"{op}{value}"))


@executes("abs")
def absolute(e: KernelWriter, i: Instruction) -> None:
    (value,) = _values(e, i, 1)
    type_, suffix = types.llvm_type(i.type), types.suffix(i.type)
    if types.is_float(i.type):
        call = f"call {type_} @llvm.fabs.{suffix}({type_} {value})"
    else:
        call = f"call {type_} @llvm.abs.{suffix}({type_} {value}, i1 false)"
    e.write(i.scalar(0), i.type, e.value(call))


@executes("copysign")
def copy_sign(e: KernelWriter, i: Instruction) -> None:
    """The second operand with the sign of the first."""
    sign, value = _values(e, i, 2)
    type_, suffix = types.llvm_type(i.type), types.suffix(i.type)
    call = f"call {type_} @llvm.copysign.{suffix}({type_} {value}, {type_} {sign})"
    e.write(i.scalar(0), i.type, e.value(call))


@executes("sqrt", "rcp", "rsqrt")
def root(e: KernelWriter, i: Instruction) -> None:
    """Roots and reciprocals; approximations are given exactly rounded."""
    (value,) = _values(e, i, 1)
    type_, suffix = types.llvm_type(i.type), types.suffix(i.type)
    if i.opcode != "rcp":
        value = e.value(f"call {type_} @llvm.sqrt.{suffix}({type_} {value})")
    if i.opcode != "sqrt":
        value = e.value(f"fdiv {type_} {types.constant(1, i.type)}, {value}")
    e.write(i.scalar(0), i.type, value)


@executes("dp4a")
def dot(e: KernelWriter, i: Instruction) -> None:
    """The sum of an accumulator and four products of bytes, each operand of its own sign."""
    total = e.bits(i.scalar(3), "b32")
    words = [e.bits(i.scalar(number), "b32") for number in (1, 2)]
    for byte in range(4):
        factors: list[str] = []
        for word, type_ in zip(words, i.modifiers, strict=True):
            moved = e.value(f"lshr i32 {word}, {8 * byte}")
            low = e.value(f"trunc i32 {moved} to i8")
            extend = "sext" if types.is_signed(type_) else "zext"
            factors.append(e.value(f"{extend} i8 {low} to i32"))
        product = e.value(f"mul i32 {factors[0]}, {factors[1]}")
        total = e.value(f"add i32 {total}, {product}")
    e.write_bits(i.scalar(0), "b32", total)
