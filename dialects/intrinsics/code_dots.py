"""Dot products of codes of few bits in words with signed bytes.

`code_dot_4` adds to an i32 the dot product of the eight 4-bit codes of a word and eight bytes. Each
byte of the word holds two codes: the low four bits are multiplied by a byte of `x0`, the high four
bits by a byte of `x1`. With `code_dot_2` a byte holds four codes, with `code_dot_8` one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import SSAValue

from tcopt.dialects.intrinsics import Intrinsic, register_family
from tcopt.dialects.simd import CodeDotOp
from tcopt.dialects.te import api as te
from tcopt.support.errors import InputError

FAMILY = "code_dot"

CODE_BITS = (2, 4, 8)
"""Widths of codes that divide a byte."""

BYTES = 4
"""Bytes of a word."""


def code_dot_name(bits: int) -> str:
    """Return the name of the intrinsic for codes of this width."""
    return f"{FAMILY}_{bits}"


def code_products(word: te.Expr, factors: Sequence[te.Expr], byte: te.Axis, bits: int) -> te.Expr:
    """Return one term of the sum, in i32: the codes of one byte times their factors."""
    total: te.Expr | None = None
    for field, factor in enumerate(factors):
        shift = te.cast(te.index(byte * 8 + bits * field), word.dtype)
        code = te.cast(te.shift_right(word, shift) & ((1 << bits) - 1), "i32")
        term = code * te.cast(factor, "i32")
        total = term if total is None else total + term
    assert total is not None
    return total


def _lower(bits: int, acc: SSAValue, word: SSAValue, *factors: SSAValue) -> list[CodeDotOp]:
    return [CodeDotOp(acc, word, factors, bits=bits)]


@register_family(FAMILY)
def _make(extents: tuple[int, ...], number: int | None) -> Intrinsic:
    if len(extents) != 1 or extents[0] not in CODE_BITS or number is not None:
        raise InputError(
            f"{'x'.join(map(str, extents))} is not a width of codes", hint="2, 4 or 8 bits"
        )
    (bits,) = extents
    names = [f"x{field}" for field in range(8 // bits)]

    def behaviour(word: te.Tensor, *factors: te.Tensor) -> te.Tensor:
        byte = te.reduce_axis(BYTES, "byte")
        value = word[()]

        def element() -> te.Reduce:
            products = code_products(value, [each[byte] for each in factors], byte, bits)
            return te.sum(products, axis=byte)

        return te.compute((), element, name="dot")

    return Intrinsic(
        code_dot_name(bits),
        inputs={"word": ((), "ui32"), **{name: ((BYTES,), "i8") for name in names}},
        behaviour=behaviour,
        lowering=partial(_lower, bits),
        requires=[()],
    )
