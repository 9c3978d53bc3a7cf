"""What an op on floats leaves open: the `fastmath` flags of MLIR that this compiler goes by.

An op without flags is exact: it rounds once, and a sum takes its terms in the order in which they
come. Two flags say that a result may differ in how it was rounded:

- `contract`: a product and the sum that it is a term of may round once, as a fused multiply-add.
  Both ops have it.
- `reassoc`: the terms of a sum, or factors of a product, come in any order and in any groups.

    %p = arith.mulf %a, %b fastmath<contract> : f32
    %s = arith.addf %c, %p fastmath<reassoc,contract> : f32

Tensor expressions say what is added, in no order; `lower-te-to-loop` makes loops of them and sets
flags. From there on no pass and no step of a schedule contracts or reorders floats without.
Integers, conditions, minima and maxima are the same in any order, and need none.

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
    """The flags of an op; none where it has no such property."""
    flags = op.properties.get("fastmath")
    return flags if isinstance(flags, FastMathFlagsAttr) else EXACT


def may_contract(op: Operation) -> bool:
    """Whether an op may round together with the sum or product that it is a part of."""
    return _CONTRACT in flags_of(op).data


def may_reassociate(op: Operation) -> bool:
    """Whether an associative op may combine its terms in any order: floats only if they say so."""
    return type(op) not in _ROUNDED_SUMS or _REASSOC in flags_of(op).data


def allow(op: Operation, *, contract: bool = False, reassoc: bool = False) -> None:
    """Add flags to a sum or product of floats; other ops have none of these, and stay."""
    kind = type(op)
    if kind in _CONTRACTED and (contract or reassoc):
        op.properties["fastmath"] = _with(flags_of(op), contract, reassoc)


def decided(flags: Attribute) -> Attribute:
    """Flags of an op that nothing is to contract or reorder any more."""
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
    """Why the terms of an op keep their order."""
    return f"{op.name} has no fastmath<reassoc>, so its terms keep their order"
