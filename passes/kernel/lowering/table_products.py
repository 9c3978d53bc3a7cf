"""Products with entries of tables."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, SSAValue

from tcopt.dialects.arith_ import SelectOp
from tcopt.dialects.table import ScaleOp
from tcopt.passes.kernel.lowering.lowering_levels import LevelWriter
from tcopt.passes.loop.unroll.table_folds import WRAPS, constant_index, is_integral, splat


def scaled(op: ScaleOp, x: SSAValue, index: SSAValue, writer: LevelWriter) -> SSAValue:
    """Write a product with a table entry selected at run time, as one select per entry."""
    type_ = op.result.type
    number = constant_index(index)
    entries = op.entries if number is None else (op.entries[number],)
    result: SSAValue | None = None
    for position, entry in enumerate(entries):
        factor = writer.attribute(splat(entry, type_), type_)
        if is_integral(type_):
            term = writer.pure(arith.MuliOp, (x, factor), type_, WRAPS)
        else:
            term = writer.pure(arith.MulfOp, (x, factor), type_, _MUL_PROPERTIES)
        if entry == 0:
            term = writer.attribute(splat(-0.0, type_), type_)
        if result is None:
            result = term
        else:
            chosen = writer.compare(index, writer.constant(position), "eq")
            result = writer.pure(SelectOp, (chosen, term, result), type_)
    assert result is not None
    return result


def _mul_properties() -> dict[str, Any]:
    probe = Block(arg_types=[f32])
    op = arith.MulfOp(probe.args[0], probe.args[0])
    properties = dict(op.properties)
    op.erase()
    return properties


_MUL_PROPERTIES = _mul_properties()
