"""Packing of neighbouring integers into bit planes, one word for each bit.

`pack_bits_2x2x16_by_0` takes two rows of 16 unsigned bytes and packs the two lowest bits of these
32 values into two words. The number after `by` is the element type: 0 for ui8, 1 for i8, 2 for
ui16 and 3 for i16. On x86, each bit takes one comparison whose result is a mask; other targets add
up bits shifted to different positions.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from tcopt.dialects.intrinsics import Intrinsic, register_family
from tcopt.dialects.intrinsics.bit_dots import MOST_PLANES, WORD
from tcopt.dialects.simd import PackBitsOp
from tcopt.dialects.te import api as te
from tcopt.support.errors import InputError

FAMILY = "pack_bits"
ELEMENTS = ("ui8", "i8", "ui16", "i16")
"""Element types, indexed by the number after `by`."""


def pack_bits_name(bits: int, blocks: int, lanes: int, element: int) -> str:
    """Return the name of the intrinsic for this number and size of blocks."""
    return f"{FAMILY}_{bits}x{blocks}x{lanes}_by_{element}"


def packed_bit(
    number: te.Expr, bit: te.Axis | None, block: te.Axis | None, lane: te.Axis, lanes: int
) -> te.Expr:
    """Return a bit of a value, shifted to its position in a word.

    Args:
        bit: the bit to extract; None for the lowest bit.
        block: the block of the value, if several blocks share a word.
    """
    word = te.cast(number, "ui32")
    if bit is not None:
        word = te.shift_right(word, te.cast(bit, "ui32"))
    place = te.cast(lane if block is None else block * lanes + lane, "ui32")
    return te.shift_left(word & 1, place)


def _lower(acc: SSAValue, x: SSAValue) -> list[PackBitsOp]:
    return [PackBitsOp(acc, x)]


@register_family(FAMILY)
def _make(extents: tuple[int, ...], number: int | None) -> Intrinsic:
    kind = number or 0
    if len(extents) != 3 or not 0 <= kind < len(ELEMENTS):
        raise InputError(
            f"{'x'.join(map(str, extents))} is not the shape of packed bits",
            hint="bits, blocks and values in a block, such as 2x2x16, and a type from 0 to 3",
        )
    bits, blocks, lanes = extents
    if bits > MOST_PLANES or blocks * lanes > WORD or lanes < 2:
        raise InputError(
            f"{blocks} blocks of {lanes} values of {bits} bits cannot be packed into words",
            hint=f"2 to {WORD} values of up to {MOST_PLANES} bits",
        )

    def behaviour(x: te.Tensor) -> te.Tensor:
        p, q = te.reduce_axis(blocks, "p"), te.reduce_axis(lanes, "q")

        def element(*at: te.Axis) -> te.Reduce:
            number = x[p, q] if blocks > 1 else x[q]
            block, bit = p if blocks > 1 else None, at[0] if at else None
            one = packed_bit(number, bit, block, q, lanes)
            return te.sum(one, axis=[p, q] if blocks > 1 else [q])

        return te.compute((bits,) if bits > 1 else (), element, name="pack")

    shape = (blocks, lanes) if blocks > 1 else (lanes,)
    return Intrinsic(
        pack_bits_name(bits, blocks, lanes, kind),
        inputs={"x": (shape, ELEMENTS[kind])},
        behaviour=behaviour,
        lowering=_lower,
        requires=[()],
    )
