"""Hardware intrinsics and ops of the simd dialect in the loop interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, UnitAttr, VectorType
from xdsl.utils.hints import isa
from xdsl.utils.type import get_element_type_or_self

from tcopt.dialects.intrinsics import Intrinsic, Operand, intrinsic
from tcopt.dialects.simd import LOW_BITS, DotOp, PackBitsOp, TableSumOp
from tcopt.interpreters.loop_runtime import Buffer
from tcopt.interpreters.loop_scalars import wrap
from tcopt.interpreters.te import run_func
from tcopt.support.data.dtypes import numpy_dtype

Places = Sequence[int]
"""Positions of the elements of a tile in its buffer, in row-major order of the tile; negative for
padding, whose elements are 0.
"""


def evaluate_intrinsic(name: str) -> Callable[[Sequence[Buffer], Sequence[Places]], None]:
    """Return a function that evaluates an intrinsic on tiles of buffers, the output's first."""
    return _evaluator(intrinsic(name))


@lru_cache(maxsize=256)
def _evaluator(declared: Intrinsic) -> Callable[[Sequence[Buffer], Sequence[Places]], None]:
    output, *inputs = declared.operands

    def evaluate(buffers: Sequence[Buffer], places: Sequence[Places]) -> None:
        tiles = {"out": _tile(output, buffers[0], places[0])}
        for operand, buffer, where in zip(inputs, buffers[1:], places[1:], strict=True):
            tiles[operand.name] = _tile(operand, buffer, where)
        names = ("out" if name == declared.old else name for name in declared.inputs)
        (result,) = run_func(declared.function, [tiles[name] for name in names])
        if declared.adds:
            result = tiles["out"] + result
        for place, value in zip(places[0], result.ravel().tolist(), strict=True):
            buffers[0][place] = value

    return evaluate


def _tile(operand: Operand, buffer: Buffer, places: Places) -> np.ndarray[Any, Any]:
    values = np.array([buffer[place] if place >= 0 else operand.outside for place in places])
    return values.astype(numpy_dtype(operand.element)).reshape(operand.shape)


def simd_expression(op: DotOp | PackBitsOp | TableSumOp, names: Sequence[str]) -> str:
    """Return an op of the simd dialect as a Python expression."""
    if isinstance(op, DotOp):
        return _dot_expression(op, names)
    if isinstance(op, TableSumOp):
        return _table_sum_expression(op, names)
    return _pack_bits_expression(op, names)


def _dot_expression(op: DotOp, names: Sequence[str]) -> str:
    """Return `simd.dot` as a Python expression, in double precision, rounded when it is stored."""
    element, group = get_element_type_or_self(op.acc.type), op.group
    acc, lhs, rhs = names
    place, old = ("p", acc)
    if isa(op.acc.type, VectorType):
        place, old = "at + p", f"{acc}[at // {group}]"
    left = _factor(f"{lhs}[{place}]", op.lhs_unsigned, op)
    right = _factor(f"{rhs}[{place}]", op.rhs_unsigned, op)
    total = f"{old} + sum([{left} * {right} for p in range({group})])"
    if isinstance(element, IntegerType):
        total = wrap(total, element)
    if not isa(op.acc.type, VectorType):
        return total
    return f"[{total} for at in range(0, {op.acc.type.element_count() * group}, {group})]"


def _pack_bits_expression(op: PackBitsOp, names: Sequence[str]) -> str:
    """Return `simd.pack_bits` as a Python expression."""
    element = get_element_type_or_self(op.acc.type)
    assert isinstance(element, IntegerType)
    acc, x = names
    is_vector = isa(op.acc.type, VectorType)
    old, bit = (f"{acc}[bit]", "bit") if is_vector else (acc, "0")
    bits = f"sum([(({x}[n] >> {bit}) & 1) << n for n in range({op.count})])"
    total = wrap(f"{old} + {bits}", element)
    return f"[{total} for bit in range({op.bits})]" if is_vector else total


def _table_sum_expression(op: TableSumOp, names: Sequence[str]) -> str:
    """Return `simd.table_sum` as a Python expression."""
    element = get_element_type_or_self(op.acc.type)
    assert isinstance(element, IntegerType)
    is_vector = isa(op.acc.type, VectorType)
    acc, tables = names[0], names[1 : 1 + len(op.tables)]
    terms: list[str] = []
    for number, index in enumerate(names[1 + len(op.tables) :]):
        weight, group = op.weights[number // op.groups], number % op.groups
        place = f"{index}[at]" if is_vector else index
        for part, width in enumerate(op.widths):
            table = tables[group * len(op.widths) + part]
            entry = f"({table}[{place} & {op.entries - 1}] & {(1 << width) - 1})"
            terms.append(f"{weight << (LOW_BITS * part)} * {entry}")
    total = wrap(" + ".join([f"{acc}[at]" if is_vector else acc, *terms]), element)
    if not isa(op.acc.type, VectorType):
        return total
    return f"[{total} for at in range({op.acc.type.element_count()})]"


def _factor(text: str, unsigned: UnitAttr | None, op: DotOp) -> str:
    """Return an element of a factor, reinterpreted as unsigned if it is marked so."""
    element = get_element_type_or_self(op.lhs.type)
    if unsigned is None or not isinstance(element, IntegerType):
        return text
    return f"({text} & {(1 << element.width.data) - 1})"
