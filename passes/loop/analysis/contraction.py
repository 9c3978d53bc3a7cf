"""Which product a sum takes in, as a fused multiply-add."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from xdsl.dialects import arith, math, vector
from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from tcopt.dialects.fast_math import may_contract
from tcopt.dialects.table import ScaleOp


class Contraction(NamedTuple):
    """A sum as `a * b + c`.

    Attributes:
        kind: the class of the multiply-add.
        operands: `a`, `b` and `c`.
        product: the op that the sum takes in.
    """

    kind: type[vector.FMAOp | math.FmaOp]
    operands: tuple[SSAValue, SSAValue, SSAValue]
    product: arith.MulfOp | ScaleOp


def contraction(
    op: arith.AddfOp,
    value_of: Callable[[SSAValue], SSAValue] = lambda value: value,
    stays: Callable[[SSAValue], bool] = lambda term: False,
) -> Contraction | None:
    """What a sum becomes with a product that nothing else uses; None if it stays a sum.

    Both must have `fastmath<contract>`.

    Args:
        value_of: what stands for a value where the multiply-add will be.
        stays: whether a sum with this term has to stay one.
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
