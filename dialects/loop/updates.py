"""Updates of an element, `memory = combine(memory, term)`, of which reductions consist."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FixedBitwidthType, FloatAttr, IntegerAttr
from xdsl.dialects.vector import CombiningKindFlag
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.dialects.fast_math import may_reassociate
from tcopt.dialects.loop.access import LoadOp, StoreOp, is_same_place
from tcopt.support.ir.literals import number_attr

COMBINERS: Mapping[type[Operation], CombiningKindFlag] = {
    arith.AddfOp: CombiningKindFlag.ADD,
    arith.AddiOp: CombiningKindFlag.ADD,
    arith.MulfOp: CombiningKindFlag.MUL,
    arith.MuliOp: CombiningKindFlag.MUL,
    arith.MaximumfOp: CombiningKindFlag.MAXIMUMF,
    arith.MinimumfOp: CombiningKindFlag.MINIMUMF,
    arith.MaxnumfOp: CombiningKindFlag.MAXNUMF,
    arith.MinnumfOp: CombiningKindFlag.MINNUMF,
    arith.MaxSIOp: CombiningKindFlag.MAXSI,
    arith.MaxUIOp: CombiningKindFlag.MAXUI,
    arith.MinSIOp: CombiningKindFlag.MINSI,
    arith.MinUIOp: CombiningKindFlag.MINUI,
    arith.AndIOp: CombiningKindFlag.AND,
    arith.OrIOp: CombiningKindFlag.OR,
    arith.XOrIOp: CombiningKindFlag.XOR,
}
"""Associative and commutative ops (floats up to rounding) and their `vector.reduction` kinds."""

_COUNTED = frozenset({CombiningKindFlag.ADD, CombiningKindFlag.MUL, CombiningKindFlag.XOR})


@dataclass(frozen=True)
class Update:
    """`memory = combine(memory, term)`."""

    combine: Operation
    accumulator: LoadOp
    term: SSAValue
    kind: CombiningKindFlag

    @property
    def in_any_order(self) -> bool:
        """Whether terms may be reordered or grouped."""
        return may_reassociate(self.combine)


def update_of(store: StoreOp) -> Update | None:
    """Match a store that updates the element it writes; None if it is not an associative update."""
    combine = store.value.owner
    if not isinstance(combine, Operation) or (kind := COMBINERS.get(type(combine))) is None:
        return None
    lhs, rhs = combine.operands
    if lhs is rhs:
        return None
    for load, term in ((lhs, rhs), (rhs, lhs)):
        source = load.owner
        if isinstance(source, LoadOp) and load.has_one_use() and is_same_place(source, store):
            return Update(combine, source, term, kind)
    return None


def counts_twice(kind: CombiningKindFlag, value: float) -> bool:
    """Whether combining an initial value twice changes the result, as 1 does in a sum."""
    return kind in _COUNTED and value != (kind is CombiningKindFlag.MUL)


def neutral(kind: CombiningKindFlag, element: Attribute) -> IntegerAttr | FloatAttr:
    """Return the identity element of a combining kind."""
    match kind:
        case CombiningKindFlag.ADD:
            return number_attr(-0.0 if isinstance(element, AnyFloat) else 0, element)
        case CombiningKindFlag.MUL:
            return number_attr(1, element)
        case CombiningKindFlag.MAXIMUMF | CombiningKindFlag.MAXNUMF:
            return number_attr(-math.inf, element)
        case CombiningKindFlag.MINIMUMF | CombiningKindFlag.MINNUMF:
            return number_attr(math.inf, element)
        case CombiningKindFlag.MAXSI:
            return number_attr(-(1 << _width(element) - 1), element)
        case CombiningKindFlag.MINSI:
            return number_attr((1 << _width(element) - 1) - 1, element)
        case CombiningKindFlag.MINUI | CombiningKindFlag.AND:
            return number_attr(1 if _width(element) == 1 else -1, element)
        case _:
            return number_attr(0, element)


def _width(element: Attribute) -> int:
    return element.bitwidth if isinstance(element, FixedBitwidthType) else 64
