"""Dot products of numbers of few bits, whose bits lie in words: a word of the number's last bits,
one of the bits in front of these, and so on (bit-serial arithmetic).

`bit_and_dot_2x1x32_by_0` adds to an i32 the products of 32 numbers of 2 bits and 32 numbers of
one: 2**(i + j) times the bits that word i of the one and word j of the other have in common. With
`bit_xor_dot` those count in which they differ, which for numbers that are -1 or 1 says how many
products are -1. Behind `by` is which numbers have a sign: 1 the first ones, 2 the second ones, 3
both; the last word of these is negative, as in two's complement.

Source: Tulloch and Jia, https://arxiv.org/abs/1712.02427; TVM paper, section 6.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects import arith, math
from xdsl.ir import Operation, SSAValue

from tcopt.dialects.intrinsics import Intrinsic, register_family
from tcopt.dialects.te import api as te
from tcopt.support.errors import InputError

WORD = 32
"""Bits of a word."""

MOST_PLANES = 8
"""Words of a number at most: its bits."""

AND, XOR = "bit_and_dot", "bit_xor_dot"


def bit_dot_name(planes: tuple[int, int], *, exclusive: bool, signs: int) -> str:
    """The intrinsic for numbers of so many bits."""
    family = XOR if exclusive else AND
    return f"{family}_{planes[0]}x{planes[1]}x{WORD}_by_{signs}"


def bit_products(
    lhs: Sequence[te.Expr],
    rhs: Sequence[te.Expr],
    bit: te.Axis,
    *,
    exclusive: bool,
    signs: int,
) -> te.Expr:
    """One term of the sum: what the bits at one place of all words give, in i32."""
    total: te.Expr | None = None
    for i, j, negative in _pairs((len(lhs), len(rhs)), signs):
        both = lhs[i] ^ rhs[j] if exclusive else lhs[i] & rhs[j]
        one = te.cast(te.shift_right(both, te.cast(bit, both.dtype)) & 1, "i32")
        if i + j:
            one = te.shift_left(one, i + j)
        if total is None:
            total = -one if negative else one
        else:
            total = total - one if negative else total + one
    assert total is not None
    return total


def _pairs(planes: tuple[int, int], signs: int) -> list[tuple[int, int, bool]]:
    """Places of words, and whether their product is taken away."""
    first, second = planes
    return [
        (i, j, (bool(signs & 1) and i == first - 1) != (bool(signs & 2) and j == second - 1))
        for i in range(first)
        for j in range(second)
    ]


def _lower(
    planes: tuple[int, int], exclusive: bool, signs: int, acc: SSAValue, *words: SSAValue
) -> list[Operation]:
    """Counts of bits, those of the same weight together, the largest weight first."""
    ops: list[Operation] = []

    def add(op: Operation) -> SSAValue:
        ops.append(op)
        return op.results[0]

    weights: dict[int, list[tuple[SSAValue, bool]]] = {}
    for i, j, negative in _pairs(planes, signs):
        combine = arith.XOrIOp if exclusive else arith.AndIOp
        count = add(math.CtPopOp(add(combine(words[i], words[planes[0] + j]))))
        weights.setdefault(i + j, []).append((count, negative))
    # All counts of one weight have the sign of the first, or a positive one comes first.
    total: SSAValue | None = None
    sign = False
    for weight in sorted(weights, reverse=True):
        if total is not None:
            total = add(arith.AddiOp(total, total))
        for count, negative in sorted(weights[weight], key=lambda each: each[1]):
            if total is None:
                total, sign = count, negative
            else:
                same = arith.AddiOp if negative == sign else arith.SubiOp
                total = add(same(total, count))
    assert total is not None
    add((arith.SubiOp if sign else arith.AddiOp)(acc, total))
    return ops


def _make(exclusive: bool, extents: tuple[int, ...], number: int | None) -> Intrinsic:
    if len(extents) != 3 or extents[2] != WORD or not 0 <= (number or 0) <= 3:
        raise InputError(
            f"a dot product of bits is not {'x'.join(map(str, extents))}",
            hint=f"bits of both numbers and {WORD}, such as 2x1x{WORD}, and a sign from 0 to 3",
        )
    planes = extents[0], extents[1]
    if max(planes) > MOST_PLANES:
        raise InputError(f"numbers of {max(planes)} bits", hint=f"at most {MOST_PLANES}")
    signs = number or 0
    names = [f"a{i}" for i in range(planes[0])] + [f"b{j}" for j in range(planes[1])]

    def behaviour(*words: te.Tensor) -> te.Tensor:
        bit = te.reduce_axis(WORD, "bit")
        values = [word[()] for word in words]

        def element() -> te.Reduce:
            lhs, rhs = values[: planes[0]], values[planes[0] :]
            term = bit_products(lhs, rhs, bit, exclusive=exclusive, signs=signs)
            return te.sum(term, axis=bit)

        return te.compute((), element, name="dot")

    return Intrinsic(
        bit_dot_name(planes, exclusive=exclusive, signs=signs),
        inputs={name: ((), "ui32") for name in names},
        behaviour=behaviour,
        lowering=partial(_lower, planes, exclusive, signs),
        requires=[()],
    )


@register_family(AND)
def _of_common_bits(extents: tuple[int, ...], number: int | None) -> Intrinsic:
    return _make(False, extents, number)


@register_family(XOR)
def _of_differing_bits(extents: tuple[int, ...], number: int | None) -> Intrinsic:
    return _make(True, extents, number)
