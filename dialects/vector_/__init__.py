"""xDSL's vector dialect, completed.

xDSL has about fifteen vector ops. This module adds those the kernels need, under MLIR's
names, syntax and semantics, replaces `vector.reduction` (whose constructor builds a wrong
type upstream), and gives the upstream ops the memory effects they lack, so that generic
passes may move, merge and delete them. All other ops are xDSL's own classes.

Source: https://mlir.llvm.org/docs/Dialects/Vector/
"""

from __future__ import annotations

from xdsl.dialects import vector as upstream
from xdsl.dialects.vector import Vector
from xdsl.ir import Dialect, Operation
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from tcopt.dialects.vector_.elements import ConstantMaskOp, FromElementsOp, ReductionOp, StepOp
from tcopt.dialects.vector_.indexed import GatherOp, ScatterOp
from tcopt.dialects.vector_.shapes import (
    ExtractStridedSliceOp,
    InsertStridedSliceOp,
    ShapeCastOp,
    TransposeOp,
)


def _add_missing_effects() -> None:
    """xDSL gives these ops no memory effects, which generic passes take for the worst."""
    for op in (upstream.LoadOp, upstream.MaskedLoadOp):
        op.traits.add_trait(MemoryReadEffect())
    for op in (upstream.StoreOp, upstream.MaskedStoreOp):
        op.traits.add_trait(MemoryWriteEffect())
    for op in (upstream.BitcastOp, upstream.CreateMaskOp, upstream.ShuffleOp):
        op.traits.add_trait(Pure())


_add_missing_effects()

_ADDED: list[type[Operation]] = [
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
_added_names = {op.name for op in _ADDED}

DIALECT = Dialect(
    "vector",
    [*(op for op in Vector.operations if op.name not in _added_names), *_ADDED],
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
