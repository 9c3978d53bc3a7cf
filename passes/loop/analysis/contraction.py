"""Contraction of a sum and a product to a fused multiply-add."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from xdsl.dialects import arith, math, vector
from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from tcopt.dialects.fast_math import may_contract
from tcopt.dialects.table import ScaleOp


class Contraction(NamedTuple):
    """A sum in the form `a * b + c`.

    Attributes:
        kind: class of the fused op.
        operands: `a`, `b` and `c`.
        product: the multiplication that is fused.
    """

    kind: type[vector.FMAOp | math.FmaOp]
    operands: tuple[SSAValue, SSAValue, SSAValue]
    product: arith.MulfOp | ScaleOp


def contraction(
    op: arith.AddfOp,
    value_of: Callable[[SSAValue], SSAValue] = lambda value: value,
    stays: Callable[[SSAValue], bool] = lambda term: False,
) -> Contraction | None:
    """Return the fused form of a sum with a single-use product, or None.

    Both must have `fastmath<contract>`.

    Args:
        value_of: maps a value to its replacement at the position of the fused op.
        stays: whether a sum with this term must not be fused.
    """
    if not may_contract(op):
        return None
    for product, other in (op.operands, reversed(op.operands)):
        written = product.owner
        if not isinstance(written, arith.MulfOp | ScaleOp) or not product.has_one_use():
            continue
        factor = value_of(product).owner
        if isinstance(factor, arith.MulfOp) and may_contract(written) and not stays(other):
            is_vector = isinstance(op.result.type, VectorType)
            fused = vector.FMAOp if is_vector else math.FmaOp
            return Contraction(fused, (factor.lhs, factor.rhs, value_of(other)), written)
    return None
