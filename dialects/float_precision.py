"""Precision of the floats that a function computes with.

Comparisons of two forms of a function use it as their tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.support.data.dtypes import is_narrow


def precision_of(func: Operation) -> float:
    """Return the relative rounding error of the least precise float type in a function."""
    error = 2.0**-24
    for op in func.walk():
        for value in (*op.results, *(arg for region in op.regions for arg in _arguments(region))):
            element = get_element_type_or_self(value.type)
            if isinstance(element, AnyFloat) and not is_narrow(element):
                error = max(error, _PRECISIONS.get(element.bitwidth, 2.0**-24))
                if element.name == "bf16":
                    error = max(error, 2.0**-8)
    return error


_PRECISIONS = {64: 2.0**-53, 32: 2.0**-24, 16: 2.0**-11}


def _arguments(region: Any) -> Sequence[SSAValue]:
    return region.blocks[0].args if region.blocks else ()


_ROUNDERS = ("arith.fptosi", "arith.fptoui", "math.roundeven", "math.round", "math.floor",
             "math.ceil", "math.trunc")  # fmt: skip


def rounds(func: Operation) -> bool:
    """Whether a function rounds to integers, so that a small difference can become 1."""
    return any(
        op.name in _ROUNDERS or (op.name.startswith("graph.") and _graph_rounds(op))
        for op in func.walk()
    )


def _graph_rounds(op: Operation) -> bool:
    from tcopt.dialects.graph.core.interfaces import GraphOp

    if isinstance(op, ConstantOp) or not isinstance(op, GraphOp):
        return False
    sources = [get_element_type_or_self(each.type) for each in op.operands]
    results = [get_element_type_or_self(each.type) for each in op.results]
    from_float = any(isinstance(each, AnyFloat) for each in sources)
    return from_float and any(not isinstance(each, AnyFloat) for each in results)
