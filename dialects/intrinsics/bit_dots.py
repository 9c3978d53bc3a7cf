"""Bit-serial dot products of values of few bits, stored as bit planes: one word holds the lowest
bits of all values, the next word their second bits, and so on.

`bit_and_dot_2x1x32_by_0` adds to an i32 the dot product of 32 2-bit values and 32 1-bit values:
the sum over words i and j of 2**(i + j) * popcount(lhs[i] & rhs[j]). `bit_xor_dot` counts
differing bits instead, which is the number of negative products of values in {-1, 1}. The number
after `by` says which operands are signed: 1 the first, 2 the second, 3 both; the last plane of a
signed operand has a negative weight, as in two's complement.

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
"""Maximum number of planes, which is the width of a value."""

AND, XOR = "bit_and_dot", "bit_xor_dot"


def bit_dot_name(planes: tuple[int, int], *, exclusive: bool, signs: int) -> str:
    """Return the name of the intrinsic for values of these widths."""
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
    """Return one term of the sum, in i32: the contribution of one bit position of all words."""
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
    """Return pairs of planes, and whether their product has a negative weight."""
    first, second = planes
    return [
        (i, j, (bool(signs & 1) and i == first - 1) != (bool(signs & 2) and j == second - 1))
        for i in range(first)
        for j in range(second)
    ]


def _lower(
    planes: tuple[int, int], exclusive: bool, signs: int, acc: SSAValue, *words: SSAValue
) -> list[Operation]:
    """Emit population counts, grouped by weight, largest weight first."""
    ops: list[Operation] = []

    def add(op: Operation) -> SSAValue:
        ops.append(op)
        return op.results[0]

    weights: dict[int, list[tuple[SSAValue, bool]]] = {}
    for i, j, negative in _pairs(planes, signs):
        combine = arith.XOrIOp if exclusive else arith.AndIOp
        count = add(math.CtPopOp(add(combine(words[i], words[planes[0] + j]))))
        weights.setdefault(i + j, []).append((count, negative))
    # Add counts that have the sign of the total, subtract the others; positive ones come first.
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
            f"{'x'.join(map(str, extents))} is not the shape of a bit dot product",
            hint=f"bits of both operands and {WORD}, such as 2x1x{WORD}, and signs from 0 to 3",
        )
    planes = extents[0], extents[1]
    if max(planes) > MOST_PLANES:
        raise InputError(f"values of {max(planes)} bits", hint=f"at most {MOST_PLANES}")
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
