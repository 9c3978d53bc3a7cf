"""The tensor-expression dialect."""

from xdsl.ir import Dialect

from tcopt.dialects.te.access import IndexOp, ReadOp
from tcopt.dialects.te.ops import (
    CallOp,
    Combiner,
    CombinerAttr,
    ComputeOp,
    FuncOp,
    ReturnOp,
    YieldOp,
)

DIALECT = Dialect(
    "te", [CallOp, ComputeOp, FuncOp, IndexOp, ReadOp, ReturnOp, YieldOp], [CombinerAttr]
)

__all__ = [
    "DIALECT",
    "CallOp",
    "Combiner",
    "CombinerAttr",
    "ComputeOp",
    "FuncOp",
    "IndexOp",
    "ReadOp",
    "ReturnOp",
    "YieldOp",
]
