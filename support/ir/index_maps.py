"""Verification of affine maps of index operands."""

from __future__ import annotations

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)
from xdsl.utils.exceptions import VerifyException

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def verify_index_map(map: AffineMap, operands: int, what: str = "the access map") -> None:
    """Check that a map computes 64-bit integers from its index operands.

    Args:
        operands: number of index operands, one for each dimension of the map.
        what: name of the map in messages.
    Raises:
        VerifyException: the map has other dimensions, or is not affine in them.
    """
    if map.num_dims != operands or map.num_symbols:
        raise VerifyException(f"{what} must have one dimension per index operand")
    rest = list(map.results)
    while rest:
        expr = rest.pop()
        if isinstance(expr, AffineBinaryOpExpr):
            _verify_operation(expr, what)
            rest += (expr.lhs, expr.rhs)
        elif isinstance(expr, AffineConstantExpr):
            if not _LEAST <= expr.value <= _MOST:
                raise VerifyException(
                    f"{what} has the constant {expr.value}, which does not fit 64 bits"
                )
        elif not isinstance(expr, AffineDimExpr) or expr.position >= operands:
            raise VerifyException(f"{what} has {expr}, which has no operand")


def _verify_operation(expr: AffineBinaryOpExpr, what: str) -> None:
    match expr.kind:
        case AffineBinaryOpKind.Add:
            return
        case AffineBinaryOpKind.Mul:
            if not (_is_constant(expr.lhs) or _is_constant(expr.rhs)):
                raise VerifyException(f"{what} multiplies two variables, which is not affine")
        case _:
            divisor = expr.rhs
            if not isinstance(divisor, AffineConstantExpr) or divisor.value <= 0:
                raise VerifyException(
                    f"{what} has '{expr.kind.get_token()}' by anything but a positive constant"
                )


def _is_constant(expr: AffineExpr) -> bool:
    return isinstance(expr, AffineConstantExpr)
