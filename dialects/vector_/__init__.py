"""xDSL's vector dialect, completed.

xDSL has about fifteen vector ops. This module adds those that kernels need, with MLIR's names,
syntax and semantics, and replaces `vector.reduction`, whose constructor builds a wrong type
upstream. All other ops are xDSL's own classes; `upstream.py` adds missing memory effects, so that
generic passes may move, merge and delete them.

Source: https://mlir.llvm.org/docs/Dialects/Vector/
"""

from __future__ import annotations

from xdsl.dialects.vector import Vector
from xdsl.ir import Dialect, Operation

from tcopt.dialects.upstream import add_traits
from tcopt.dialects.vector_.elements import ConstantMaskOp, FromElementsOp, ReductionOp, StepOp
from tcopt.dialects.vector_.indexed import GatherOp, ScatterOp
from tcopt.dialects.vector_.shapes import (
    ExtractStridedSliceOp,
    InsertStridedSliceOp,
    ShapeCastOp,
    TransposeOp,
)

add_traits(Vector)

ADDED: list[type[Operation]] = [
    GatherOp,
    ScatterOp,
    ExtractStridedSliceOp,
    InsertStridedSliceOp,
    ShapeCastOp,
    TransposeOp,
    ConstantMaskOp,
    StepOp,
    FromElementsOp,
    ReductionOp,
]
_added_names = {op.name for op in ADDED}

DIALECT = Dialect(
    "vector",
    [*(op for op in Vector.operations if op.name not in _added_names), *ADDED],
    list(Vector.attributes),
)

__all__ = [
    "DIALECT",
    "ConstantMaskOp",
    "ExtractStridedSliceOp",
    "FromElementsOp",
    "GatherOp",
    "InsertStridedSliceOp",
    "ReductionOp",
    "ScatterOp",
    "ShapeCastOp",
    "StepOp",
    "TransposeOp",
]
