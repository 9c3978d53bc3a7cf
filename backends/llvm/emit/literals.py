"""LLVM constants: operands with a type and known values.

Every other operand is a plain string with the name of a value.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import copysign
from typing import cast

import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
)
from xdsl.ir import Attribute

from tcopt.backends.llvm.emit.types import DOUBLE, FLOAT, HALF, I1, PTR, LlvmType, llvm_type
from tcopt.support.data.dtypes import numpy_dtype
from tcopt.support.memo import memo

Number = int | float

_ROUNDED: dict[LlvmType, type[np.floating]] = {HALF: np.float16, FLOAT: np.float32}


class Literal(str):
    """The LLVM text of a constant.

    Attributes:
        type: its LLVM type.
        numbers: the value of each lane, or a single value for all lanes. None for the address of a
            global, and for `poison`.
    """

    __slots__ = ("numbers", "type")

    type: LlvmType
    numbers: tuple[Number, ...] | None

    @property
    def number(self) -> Number | None:
        """The value of a scalar or of all lanes; None if lanes differ."""
        return self.numbers[0] if self.numbers is not None and len(self.numbers) == 1 else None

    @property
    def lanes(self) -> tuple[Number, ...]:
        """The value of each lane."""
        numbers = self.numbers or ()
        return numbers * self.type.lanes if len(numbers) == 1 else numbers


def _made(text: str, type: LlvmType, numbers: tuple[Number, ...] | None) -> Literal:
    made = Literal(text)
    made.type, made.numbers = type, numbers
    return made


def literal(type: LlvmType, *numbers: Number) -> Literal:
    """Return a constant from the value of a scalar, one value for all lanes, or one per lane.

    Values are rounded to the type.
    """
    if type.element in _ROUNDED:
        with np.errstate(over="ignore"):
            numbers = tuple(float(_ROUNDED[type.element](number)) for number in numbers)
    spelled = [_spell(type.element, number) for number in numbers]
    if not type.lanes:
        (text,) = spelled
        return _made(text, type, numbers)
    if len(set(spelled)) > 1:
        listed = ", ".join(f"{type.element} {text}" for text in spelled)
        return _made(f"<{listed}>", type, numbers)
    text = "zeroinitializer" if _is_zero(numbers[0]) else f"splat ({type.element} {spelled[0]})"
    return _made(text, type, numbers[:1])


def _is_zero(number: Number) -> bool:
    return number == 0 and copysign(1, number) > 0


def _spell(type: LlvmType, number: Number) -> str:
    if type == I1:
        return "true" if int(number) & 1 else "false"
    if type == HALF:
        return f"0xH{np.float16(number).view(np.uint16):04X}"
    if type in (FLOAT, DOUBLE):
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    return str(int(number))


def address_of(symbol: str, type: LlvmType = PTR) -> Literal:
    """Return the address of a global variable."""
    return _made(f"@{symbol}", type, None)


def poison(type: LlvmType) -> Literal:
    """Return a poison value."""
    return _made("poison", type, None)


@memo(4096)
def scalar_constant(attr: IntegerAttr | FloatAttr) -> Literal:
    """Return the constant of an integer or float attribute."""
    return literal(llvm_type(attr.type), _stored(attr.value.data, attr.type))


@memo(256)
def dense_constant(attr: DenseIntOrFPElementsAttr) -> Literal:
    """Return the constant of a dense vector attribute."""
    element = attr.get_element_type()
    # Vectors have no complex elements.
    values = cast("Sequence[Number]", attr.get_values())
    numbers = (_stored(value, element) for value in (values[:1] if attr.is_splat() else values))
    return literal(llvm_type(attr.type), *numbers)


def _stored(value: Number, type: Attribute) -> Number:
    """Return a value in LLVM's representation: a bf16 is the integer of its bits."""
    if isinstance(type, BFloat16Type):
        with np.errstate(over="ignore"):
            return int(np.asarray(value, numpy_dtype(type)).view(np.uint16))
    return value
