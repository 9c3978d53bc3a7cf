"""Use of MLIR's `fastmath` flags, which permit optimisations that change rounding.

An op without flags is exact: it rounds once, and a sum adds its terms in order. Two flags permit a
result to be rounded differently:

- `contract`: a product and the sum that uses it may be fused into one multiply-add, which rounds
  once. Both ops need the flag.
- `reassoc`: the terms of a sum, or the factors of a product, may be reordered and regrouped.

    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %c, %p fastmath<reassoc,contract> : f32

Tensor expressions define sums without an order; `lower-te-to-loop` lowers them to loops and sets
the flags. After that, no pass and no schedule primitive contracts or reorders float operations
without flags. Integer operations, conditions, minima and maxima do not depend on order and need no
flags.

Source: https://mlir.llvm.org/docs/Dialects/ArithOps/#fastmathflagsattr
"""

from __future__ import annotations

from xdsl.dialects.arith import AddfOp, FastMathFlagsAttr, MulfOp, SubfOp
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Operation

from tcopt.dialects.table import ScaleOp
from tcopt.support.memo import memo

EXACT = FastMathFlagsAttr("none")
CONTRACT = FastMathFlagsAttr([FastMathFlag.ALLOW_CONTRACT])
REASSOC = FastMathFlagsAttr([FastMathFlag.REASSOC])

_CONTRACTED = frozenset({AddfOp, SubfOp, MulfOp, ScaleOp})
_ROUNDED_SUMS = frozenset({AddfOp, MulfOp})
_CONTRACT, _REASSOC = FastMathFlag.ALLOW_CONTRACT, FastMathFlag.REASSOC


def flags_of(op: Operation) -> FastMathFlagsAttr:
    """Return the flags of an op; none if it has no such property."""
    flags = op.properties.get("fastmath")
    return flags if isinstance(flags, FastMathFlagsAttr) else EXACT


def may_contract(op: Operation) -> bool:
    """Whether an op may be contracted with the sum or product that it is part of."""
    return _CONTRACT in flags_of(op).data


def may_reassociate(op: Operation) -> bool:
    """Whether an associative op may combine its terms in any order; floats need `reassoc`."""
    return type(op) not in _ROUNDED_SUMS or _REASSOC in flags_of(op).data


def allow(op: Operation, *, contract: bool = False, reassoc: bool = False) -> None:
    """Add flags to a float sum or product; other ops are left unchanged."""
    kind = type(op)
    if kind in _CONTRACTED and (contract or reassoc):
        op.properties["fastmath"] = _with(flags_of(op), contract, reassoc)


def decided(flags: Attribute) -> Attribute:
    """Return the flags without `contract` and `reassoc`, so that the op is exact from now on."""
    return flags if flags is EXACT else _without(flags)


@memo(256)
def _with(flags: FastMathFlagsAttr, contract: bool, reassoc: bool) -> FastMathFlagsAttr:
    added = [*(_CONTRACT,) * contract, *(_REASSOC,) * reassoc]
    return FastMathFlagsAttr(flags.data | frozenset(added))


@memo(256)
def _without(flags: Attribute) -> Attribute:
    if not isinstance(flags, FastMathFlagsAttr):
        return flags
    return FastMathFlagsAttr(flags.data - {_CONTRACT, _REASSOC})


def order_reason(op: Operation) -> str:
    """Return the reason why the terms of an op must keep their order."""
    return f"{op.name} has no fastmath<reassoc>, so its terms keep their order"
