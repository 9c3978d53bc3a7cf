"""What single kernel ops fold to: a constant, or a value that exists already.

A fold gets the op and the constants of its operands, None where not known, as Python or
numpy numbers of the element type; splat vectors count as their element. It returns an
operand, a number for a constant of the result type, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

import numpy as np
from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    FixedBitwidthType,
    Float16Type,
    Float32Type,
    IndexType,
    IntegerAttr,
    IntegerType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa
from xdsl.utils.type import get_element_type_or_self

from tcopt.dialects import arith_
from tcopt.support.registration import Registry

Number = int | float
Folded = SSAValue | Number | None
Fold = Callable[[Operation, Sequence[Number | None]], Folded]

FOLDS: Registry[str, Fold] = Registry("fold of")
"""Folds by the names of their ops."""


def folds(*ops: type[Operation]) -> Callable[[Fold], Fold]:
    """Register the fold of some op classes."""

    def register(fold: Fold) -> Fold:
        for op in ops:
            FOLDS[op.name] = fold
        return fold

    return register


def fold_of(op: Operation) -> Fold | None:
    """The fold of an op, by its name."""
    return FOLDS.values_by_key().get(op.name)


def bit_width(type: Attribute) -> int:
    """Width in bits of integers and indices."""
    element = get_element_type_or_self(type)
    return element.bitwidth if isinstance(element, FixedBitwidthType) else 64


def wrap(value: int, type: Attribute) -> int:
    """An integer reduced to its type's signed range (i1: 0 or 1)."""
    width = bit_width(type)
    value &= (1 << width) - 1
    return value if width == 1 or value < 1 << (width - 1) else value - (1 << width)


def round_float(value: float, type: Attribute) -> float | None:
    """A float rounded to its type; None for types that are not folded."""
    element = get_element_type_or_self(type)
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(element, Float32Type):
            return float(np.float32(value))
        if isinstance(element, Float16Type):
            return float(np.float16(value))
    return None if isinstance(element, BFloat16Type) else float(value)


# Integers


def _unsigned(value: Number, type: Attribute) -> int:
    return int(value) & ((1 << bit_width(type)) - 1)


_INTEGER: dict[str, Callable[[int, int], int]] = {
    arith.AddiOp.name: lambda a, b: a + b,
    arith.SubiOp.name: lambda a, b: a - b,
    arith.MuliOp.name: lambda a, b: a * b,
    arith.AndIOp.name: lambda a, b: a & b,
    arith.OrIOp.name: lambda a, b: a | b,
    arith.XOrIOp.name: lambda a, b: a ^ b,
    arith.MinSIOp.name: min,
    arith.MaxSIOp.name: max,
}
_DIVISION: dict[str, Callable[[int, int], int]] = {
    arith.DivSIOp.name: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    arith.RemSIOp.name: lambda a, b: (abs(a) % abs(b)) * (-1 if a < 0 else 1),
    arith.FloorDivSIOp.name: lambda a, b: a // b,
    arith.CeilDivSIOp.name: lambda a, b: -(-a // b),
}
_UNSIGNED: dict[str, Callable[[int, int], int]] = {
    arith.DivUIOp.name: lambda a, b: a // b,
    arith.RemUIOp.name: lambda a, b: a % b,
    arith.CeilDivUIOp.name: lambda a, b: -(-a // b),
    arith.MinUIOp.name: min,
    arith.MaxUIOp.name: max,
}
_ZERO_IS_NEUTRAL = {cls.name for cls in (arith.AddiOp, arith.SubiOp, arith.OrIOp, arith.XOrIOp)} | {
    cls.name for cls in (arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp)
}
_ONE_IS_NEUTRAL = {
    cls.name for cls in (arith.MuliOp, arith.DivSIOp, arith.DivUIOp, arith.FloorDivSIOp)
} | {cls.name for cls in (arith.CeilDivSIOp, arith.CeilDivUIOp)}
_COMMUTATIVE = {
    cls.name for cls in (arith.AddiOp, arith.MuliOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp)
}


@folds(
    arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp,
    arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp, arith.DivSIOp, arith.DivUIOp,
    arith.RemSIOp, arith.RemUIOp, arith.FloorDivSIOp, arith.CeilDivSIOp, arith.CeilDivUIOp,
    arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp,
)  # fmt: skip
def fold_integer(op: Operation, known: Sequence[Number | None]) -> Folded:
    """Constants, and operations with their neutral or absorbing number."""
    lhs, rhs = known
    if lhs is not None and rhs is not None:
        return _fold_integers(op, int(lhs), int(rhs))
    neutral = _neutral_operand(op, lhs, rhs)
    if neutral is not None:
        return neutral
    if 0 in (lhs, rhs) and op.name in (arith.MuliOp.name, arith.AndIOp.name):
        return 0
    if rhs == 1 and op.name in (arith.RemSIOp.name, arith.RemUIOp.name):
        return 0
    return None


def _neutral_operand(op: Operation, lhs: Number | None, rhs: Number | None) -> SSAValue | None:
    neutral = 0 if op.name in _ZERO_IS_NEUTRAL else 1 if op.name in _ONE_IS_NEUTRAL else None
    if neutral is None or (neutral == 1 and bit_width(op.results[0].type) == 1):
        return None
    if rhs == neutral:
        return op.operands[0]
    if lhs == neutral and op.name in _COMMUTATIVE:
        return op.operands[1]
    return None


def _fold_integers(op: Operation, lhs: int, rhs: int) -> int | None:
    type, name = op.results[0].type, op.name
    if name in _INTEGER:
        return wrap(_INTEGER[name](lhs, rhs), type)
    if name in _DIVISION:
        return wrap(_DIVISION[name](lhs, rhs), type) if rhs else None
    if name in _UNSIGNED:
        left, right = _unsigned(lhs, type), _unsigned(rhs, type)
        is_choice = name in (arith.MinUIOp.name, arith.MaxUIOp.name)
        return wrap(_UNSIGNED[name](left, right), type) if right or is_choice else None
    return _fold_shift(name, lhs, rhs, type)


def _fold_shift(name: str, lhs: int, rhs: int, type: Attribute) -> int | None:
    if not 0 <= rhs < bit_width(type):
        return None
    if name == arith.ShLIOp.name:
        return wrap(lhs << rhs, type)
    if name == arith.ShRSIOp.name:
        return wrap(lhs >> rhs, type)
    return wrap(_unsigned(lhs, type) >> rhs, type)


_SIGNED_ORDER: dict[str, Callable[[Number, Number], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@folds(arith_.CmpiOp)
def fold_cmpi(op: Operation, known: Sequence[Number | None]) -> Folded:
    """Comparisons of constants."""
    lhs, rhs = known
    if lhs is None or rhs is None:
        return None
    attr = op.properties["predicate"]
    assert isa(attr, IntegerAttr)
    predicate = arith.CMPI_COMPARISON_OPERATIONS[attr.value.data]
    if predicate.startswith("u"):
        type = op.operands[0].type
        lhs, rhs = _unsigned(lhs, type), _unsigned(rhs, type)
    order = predicate if predicate in ("eq", "ne") else predicate[1:]
    return int(_SIGNED_ORDER[order](lhs, rhs))


@folds(arith_.SelectOp)
def fold_select(op: Operation, known: Sequence[Number | None]) -> Folded:
    """A constant condition, or two equal choices."""
    _, lhs, rhs = op.operands
    if known[0] is not None:
        return lhs if known[0] else rhs
    return lhs if lhs is rhs else None


# Floats


@folds(arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp)
def fold_float(op: Operation, known: Sequence[Number | None]) -> Folded:
    """Constants with a finite result, and operations that change no bit of an operand."""
    lhs, rhs = known
    if lhs is not None and rhs is not None:
        return _fold_floats(op, float(lhs), float(rhs))
    if rhs == 1.0 and isinstance(op, arith.MulfOp | arith.DivfOp):
        return op.operands[0]
    if lhs == 1.0 and isinstance(op, arith.MulfOp):
        return op.operands[1]
    return None


def _fold_floats(op: Operation, lhs: float, rhs: float) -> float | None:
    match op:
        case arith.AddfOp():
            value = lhs + rhs
        case arith.SubfOp():
            value = lhs - rhs
        case arith.MulfOp():
            value = lhs * rhs
        case _:
            if rhs == 0.0:
                return None
            value = lhs / rhs
    if isinstance(get_element_type_or_self(op.results[0].type), Float16Type):
        return None  # the f64 result is not always rounded as f16 arithmetic would
    rounded = round_float(value, op.results[0].type)
    return rounded if rounded is not None and isfinite(rounded) else None


# Casts


@folds(arith_.IndexCastOp, arith_.ExtSIOp, arith_.TruncIOp)
def fold_integer_cast(op: Operation, known: Sequence[Number | None]) -> Folded:
    """A constant in another width."""
    if known[0] is None:
        return None
    value = int(known[0])
    if bit_width(op.operands[0].type) == 1 and op.name != arith_.TruncIOp.name:
        value = -value
    return wrap(value, op.results[0].type)


@folds(arith_.IndexCastUIOp, arith_.ExtUIOp)
def fold_unsigned_cast(op: Operation, known: Sequence[Number | None]) -> Folded:
    """A constant in another width, extended by zeros."""
    if known[0] is None:
        return None
    return wrap(_unsigned(known[0], op.operands[0].type), op.results[0].type)


@folds(arith_.SIToFPOp, arith.ExtFOp, arith.TruncFOp)
def fold_to_float(op: Operation, known: Sequence[Number | None]) -> Folded:
    """A constant as a float of another type."""
    if known[0] is None:
        return None
    return round_float(float(known[0]), op.results[0].type)


@folds(vector.BroadcastOp)
def fold_broadcast(op: Operation, known: Sequence[Number | None]) -> Folded:
    """The same constant in every lane."""
    return known[0]


def is_foldable_type(type: Attribute) -> bool:
    """Whether constants of a type are understood here."""
    return isinstance(get_element_type_or_self(type), IntegerType | IndexType | AnyFloat)
