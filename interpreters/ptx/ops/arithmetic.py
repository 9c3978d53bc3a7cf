"""Rules for arithmetic on integers and floats."""

from __future__ import annotations

from tcopt.interpreters.ptx import types
from tcopt.interpreters.ptx.kernel_writer import PtxKernelWriter
from tcopt.interpreters.ptx.registry import executes
from tcopt.interpreters.ptx.text import PtxInstruction

_DIRECTED = ("rz", "rm", "rp")
"""Rounding modes other than to nearest: towards zero, minus infinity and plus infinity."""


def operands(e: PtxKernelWriter, i: PtxInstruction, count: int) -> list[str]:
    """Return the first `count` source operands; with `ftz`, subnormals are flushed to 0."""
    values = [e.read(i.scalar(number + 1), i.type) for number in range(count)]
    return [flushed(e, i.type, value) for value in values] if i.has("ftz") else values


def finish(e: PtxKernelWriter, i: PtxInstruction, value: str) -> None:
    """Store a result; `sat` clamps it to [0, 1], and `ftz` flushes subnormals to 0."""
    if i.has("sat"):
        value = saturated(e, i.type, value)
    e.write(i.scalar(0), i.type, flushed(e, i.type, value) if i.has("ftz") else value)


def flushed(e: PtxKernelWriter, kind: str, value: str) -> str:
    """Flush a subnormal f32 to a 0 of the same sign; other types are unchanged."""
    if kind != "f32":
        return value
    size = e.value(f"call float @llvm.fabs.f32(float {value})")
    small = e.value(f"fcmp olt float {size}, {types.constant(2.0**-126, 'f32')}")
    zero = e.value(f"call float @llvm.copysign.f32(float 0.0, float {value})")
    return e.value(f"select i1 {small}, float {zero}, float {value}")


def saturated(e: PtxKernelWriter, kind: str, value: str) -> str:
    """Clamp a float to [0, 1]; NaN becomes 0."""
    if not types.is_float(kind):
        e.refuse("saturation")
    type_, suffix = types.llvm_type(kind), types.suffix(kind)
    zero, one = (types.constant(number, kind) for number in (0, 1))
    value = e.value(f"call {type_} @llvm.maxnum.{suffix}({type_} {value}, {type_} {zero})")
    return e.value(f"call {type_} @llvm.minnum.{suffix}({type_} {value}, {type_} {one})")


@executes("add", "sub", "addc", "subc")
def add(e: PtxKernelWriter, i: PtxInstruction) -> None:
    left, right = operands(e, i, 2)
    op, type_ = i.opcode[:3], types.llvm_type(i.type)
    if types.is_float(i.type):
        value = e.value(f"f{op} {type_} {left}, {right}")
        finish(e, i, _directed(e, i, value, left, right))
    elif i.has("cc") or i.opcode != op:
        e.write_bits(i.scalar(0), i.type, _carried(e, i, op, left, right))
    else:
        finish(e, i, e.value(f"{op} {type_} {left}, {right}"))


def _carried(e: PtxKernelWriter, i: PtxInstruction, op: str, left: str, right: str) -> str:
    """Add or subtract with carry-in (`addc`, `subc`, `madc`) and carry-out (`.cc`)."""
    size, type_ = types.bits(i.type), types.integer(i.type)
    wide = f"i{2 * size}"
    left, right = (e.value(f"zext {type_} {each} to {wide}") for each in (left, right))
    total = e.value(f"{op} {wide} {left}, {right}")
    if i.opcode.endswith("c"):
        carry = e.value(f"load i1, ptr {e.carry()}")
        total = e.value(f"{op} {wide} {total}, {e.value(f'zext i1 {carry} to {wide}')}")
    if i.has("cc"):
        beyond = e.value(f"lshr {wide} {total}, {size}")
        e.line(f"store i1 {e.value(f'trunc {wide} {beyond} to i1')}, ptr {e.carry()}")
    return e.value(f"trunc {wide} {total} to {type_}")


@executes("mul", "mad", "madc")
def multiply(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Multiply, keeping the low half, the high half or all of the product; `mad` adds to it."""
    if types.is_float(i.type):
        if i.opcode != "mul":
            e.refuse("products of floats that are added")
        left, right = operands(e, i, 2)
        product = e.value(f"fmul {types.llvm_type(i.type)} {left}, {right}")
        finish(e, i, _directed(e, i, product, left, right))
        return
    size = types.bits(i.type)
    left, right = operands(e, i, 2)
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
    if i.has("cc") or i.opcode == "madc":
        product = _carried(e, i, "add", product, e.read(i.scalar(3), result))
    elif i.opcode == "mad":
        product = e.value(f"add {type_} {product}, {e.read(i.scalar(3), result)}")
    e.write_bits(i.scalar(0), result, product)


@executes("fma")
def fused(e: PtxKernelWriter, i: PtxInstruction) -> None:
    a, b, c = operands(e, i, 3)
    type_, suffix = types.llvm_type(i.type), types.suffix(i.type)
    value = e.value(f"call {type_} @llvm.fma.{suffix}({type_} {a}, {type_} {b}, {type_} {c})")
    finish(e, i, _directed(e, i, value, a, b, c))


def _directed(e: PtxKernelWriter, i: PtxInstruction, nearest: str, *values: str) -> str:
    """Return a result in the instruction's rounding mode, given the result rounded to nearest."""
    mode = next((each for each in _DIRECTED if i.has(each)), None)
    if mode is None:
        return nearest
    if i.type != "f32":
        e.refuse("rounding")
    wide = [e.value(f"fpext float {each} to double") for each in values]
    high, low = _exact(e, i, wide)
    found = e.value(f"fpext float {nearest} to double")
    equal = e.value(f"fcmp oeq double {found}, {high}")
    sides: list[str] = []
    for strict, rest in (("ogt", "olt"), ("olt", "ogt")):
        apart = e.value(f"fcmp {strict} double {found}, {high}")
        below = e.value(f"fcmp {rest} double {low}, 0.0")
        sides.append(e.value(f"or i1 {apart}, {e.value(f'and i1 {equal}, {below}')}"))
    above, below = sides
    if mode == "rz":
        positive = e.value(f"fcmp ogt float {nearest}, 0.0")
        negative = e.value(f"fcmp olt float {nearest}, 0.0")
        above = e.value(f"and i1 {above}, {positive}")
        below = e.value(f"and i1 {below}, {negative}")
    down, up = (e.value(f"call float @{e.helper(*text)}(float {nearest})") for text in (DOWN, UP))
    result = nearest
    if mode != "rp":
        result = e.value(f"select i1 {above}, float {down}, float {result}")
    if mode != "rm":
        result = e.value(f"select i1 {below}, float {up}, float {result}")
    return result


def _exact(e: PtxKernelWriter, i: PtxInstruction, values: list[str]) -> tuple[str, str]:
    """Return the exact result of an instruction on f32 as an unevaluated sum of two doubles."""
    if i.opcode == "mul":
        return e.value(f"fmul double {values[0]}, {values[1]}"), "0.0"
    if i.opcode == "fma":
        # The product of two floats is exact in double.
        left, right = e.value(f"fmul double {values[0]}, {values[1]}"), values[2]
    else:
        left, right = values
        right = e.value(f"fneg double {right}") if i.opcode == "sub" else right
    total = e.value(f"fadd double {left}, {right}")
    part = e.value(f"fsub double {total}, {left}")
    rest = e.value(f"fsub double {total}, {part}")
    errors = [e.value(f"fsub double {each}, {of}") for each, of in ((left, rest), (right, part))]
    return total, e.value(f"fadd double {errors[0]}, {errors[1]}")


def _neighbour(name: str, away: str, toward: str, zero: int) -> tuple[str, str]:
    """Return a helper function for the next float above or below, a step of the bit pattern."""
    return (
        f"ptx.{name}",
        f"""define internal float @ptx.{name}(float %x) alwaysinline {{
  %bits = bitcast float %x to i32
  %negative = icmp slt i32 %bits, 0
  %is_zero = fcmp oeq float %x, 0.0
  %step = select i1 %negative, i32 {away}, i32 {toward}
  %moved = add i32 %bits, %step
  %found = select i1 %is_zero, i32 {zero}, i32 %moved
  %result = bitcast i32 %found to float
  ret float %result
}}""",
    )


DOWN = _neighbour("next_down", "1", "-1", -0x7FFFFFFF)
UP = _neighbour("next_up", "-1", "1", 1)


@executes("div", "rem")
def divide(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Divide, or take the remainder. An integer divisor of 0, undefined in PTX, is taken as 1."""
    left, right = operands(e, i, 2)
    type_ = types.llvm_type(i.type)
    if types.is_float(i.type):
        finish(e, i, e.value(f"fdiv {type_} {left}, {right}"))
        return
    sign = "s" if types.is_signed(i.type) else "u"
    zero = e.value(f"icmp eq {type_} {right}, 0")
    divisor = e.value(f"select i1 {zero}, {type_} 1, {type_} {right}")
    value = e.value(f"{sign}{i.opcode} {type_} {left}, {divisor}")
    e.write_bits(i.scalar(0), i.type, value)


@executes("min", "max")
def extreme(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Return the minimum or maximum; with the modifier `NaN`, a NaN operand makes it NaN."""
    left, right = operands(e, i, 2)
    type_ = types.llvm_type(i.type)
    name = f"{i.opcode}imum"
    if not types.is_float(i.type):
        name = f"{'s' if types.is_signed(i.type) else 'u'}{i.opcode}"
    elif not i.has("NaN"):
        name += "num"
    call = f"call {type_} @llvm.{name}.{types.suffix(i.type)}({type_} {left}, {type_} {right})"
    finish(e, i, e.value(call))


@executes("neg")
def negate(e: PtxKernelWriter, i: PtxInstruction) -> None:
    (value,) = operands(e, i, 1)
    type_ = types.llvm_type(i.type)
    op = f"fneg {type_} " if types.is_float(i.type) else f"sub {type_} 0, "
    finish(e, i, e.value(f"{op}{value}"))


@executes("abs")
def absolute(e: PtxKernelWriter, i: PtxInstruction) -> None:
    (value,) = operands(e, i, 1)
    type_, suffix = types.llvm_type(i.type), types.suffix(i.type)
    if types.is_float(i.type):
        call = f"call {type_} @llvm.fabs.{suffix}({type_} {value})"
    else:
        call = f"call {type_} @llvm.abs.{suffix}({type_} {value}, i1 false)"
    finish(e, i, e.value(call))


@executes("copysign")
def copy_sign(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Return the second operand with the sign of the first."""
    sign, value = operands(e, i, 2)
    type_, suffix = types.llvm_type(i.type), types.suffix(i.type)
    call = f"call {type_} @llvm.copysign.{suffix}({type_} {value}, {type_} {sign})"
    finish(e, i, e.value(call))


@executes("dp4a")
def dot(e: PtxKernelWriter, i: PtxInstruction) -> None:
    """Add the products of four pairs of bytes to an accumulator; each operand has its own
    signedness."""
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
