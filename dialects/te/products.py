"""Products of which a part is kept."""

from __future__ import annotations

from tcopt.dialects.te import api as te

HALF, BITS = 1 << 30, 31
LARGEST = (1 << 31) - 1


def multiply_high(lhs: te.Expr, rhs: te.Expr) -> te.Expr:
    """The high half of twice the product of 32 bits, rounded; the largest number where that is too
    large."""
    product = te.cast(lhs, "i64") * te.cast(rhs, "i64") + te.cast(HALF, "i64")
    half = te.shift_right(product, te.cast(BITS, "i64"))
    return te.cast(te.minimum(half, te.cast(LARGEST, "i64")), "i32")
