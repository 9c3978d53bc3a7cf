"""Reductions over the lanes of one vector: which stores of a loop body are such, and of what."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FixedBitwidthType, FloatAttr, IntegerAttr
from xdsl.dialects.vector import CombiningKindFlag
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.dialects import loop
from tcopt.support.literals import number_attr

Kinds = Mapping[type[Operation], CombiningKindFlag]

LANE_KINDS: Kinds = {
    arith.AddfOp: CombiningKindFlag.ADD,
    arith.AddiOp: CombiningKindFlag.ADD,
    arith.MulfOp: CombiningKindFlag.MUL,
    arith.MuliOp: CombiningKindFlag.MUL,
    arith.MaximumfOp: CombiningKindFlag.MAXIMUMF,
    arith.MinimumfOp: CombiningKindFlag.MINIMUMF,
    arith.MaxnumfOp: CombiningKindFlag.MAXNUMF,
    arith.MinnumfOp: CombiningKindFlag.MINNUMF,
    arith.MaxSIOp: CombiningKindFlag.MAXSI,
    arith.MinSIOp: CombiningKindFlag.MINSI,
    arith.AndIOp: CombiningKindFlag.AND,
    arith.OrIOp: CombiningKindFlag.OR,
    arith.XOrIOp: CombiningKindFlag.XOR,
}
"""How the lanes of a vector are combined."""

THREAD_KINDS: Kinds = {
    **LANE_KINDS,
    arith.MaxUIOp: CombiningKindFlag.MAXUI,
    arith.MinUIOp: CombiningKindFlag.MINUI,
}
"""How threads combine values, two at a time."""


@dataclass(frozen=True)
class Update:
    """`memory = combine(memory, term)`.

    Attributes:
        kind: how `vector.reduction` names the combination.
    """

    combine: Operation
    accumulator: loop.LoadOp
    term: SSAValue
    kind: CombiningKindFlag


def update_of(store: loop.StoreOp, kinds: Kinds = LANE_KINDS) -> Update | None:
    """How a store updates the element it writes; None if it is no associative update.

    Args:
        kinds: the combinations that count.
    """
    combine = store.value.owner
    if not isinstance(combine, Operation) or (kind := kinds.get(type(combine))) is None:
        return None
    for load, term in (combine.operands, reversed(combine.operands)):
        source = load.owner
        if (
            isinstance(source, loop.LoadOp)
            and source.memref is store.memref
            and source.map == store.map
            and tuple(source.indices) == tuple(store.indices)
            and all(use.operation is combine for use in source.result.uses)
            and load is not term
        ):
            return Update(combine, source, term, kind)
    return None


def neutral(kind: CombiningKindFlag, element: Attribute) -> IntegerAttr | FloatAttr:
    """What combines with any value to that value."""
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
        case _:
            return number_attr(0, element)


def _width(element: Attribute) -> int:
    return element.bitwidth if isinstance(element, FixedBitwidthType) else 64
