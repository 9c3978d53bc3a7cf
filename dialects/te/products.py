"""Fixed-point products."""

from __future__ import annotations

from tcopt.dialects.te import api as te

HALF, BITS = 1 << 30, 31
LARGEST = (1 << 31) - 1


def multiply_high(lhs: te.Expr, rhs: te.Expr) -> te.Expr:
    """Return the rounded high half of twice a 32-bit product, saturated to the largest value."""
    product = te.cast(lhs, "i64") * te.cast(rhs, "i64") + te.cast(HALF, "i64")
    half = te.shift_right(product, te.cast(BITS, "i64"))
    return te.cast(te.minimum(half, te.cast(LARGEST, "i64")), "i32")
