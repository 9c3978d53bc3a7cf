"""The sched dialect: schedules as IR, one op for each primitive."""

from xdsl.ir import Dialect

from tcopt.dialects.sched.base import Resolve, SchedOp
from tcopt.dialects.sched.blocks import (
    AnnotateOp,
    CacheReadOp,
    CacheWriteOp,
    ComputeAtOp,
    ComputeInlineOp,
    DecomposeReductionOp,
    PrefetchOp,
    ReverseComputeAtOp,
    ReverseComputeInlineOp,
    SetScopeOp,
    StorageAlignOp,
    TensorizeOp,
)
from tcopt.dialects.sched.handles import GetBlockOp, GetLoopsOp, KnobOp
from tcopt.dialects.sched.loops import (
    BindOp,
    FuseOp,
    ParallelOp,
    ReorderOp,
    RfactorOp,
    SplitOp,
    UnrollOp,
    VectorizeOp,
    VirtualThreadOp,
)
from tcopt.dialects.sched.sequence import SequenceOp
from tcopt.dialects.sched.types import BlockType, LoopType

DIALECT = Dialect(
    "sched",
    [
        AnnotateOp,
        PrefetchOp,
        BindOp,
        CacheReadOp,
        CacheWriteOp,
        ComputeAtOp,
        ComputeInlineOp,
        DecomposeReductionOp,
        FuseOp,
        GetBlockOp,
        GetLoopsOp,
        KnobOp,
        ParallelOp,
        ReorderOp,
        ReverseComputeAtOp,
        ReverseComputeInlineOp,
        RfactorOp,
        SequenceOp,
        SetScopeOp,
        SplitOp,
        StorageAlignOp,
        TensorizeOp,
        UnrollOp,
        VectorizeOp,
        VirtualThreadOp,
    ],
    [BlockType, LoopType],
)

__all__ = [
    "DIALECT",
    "AnnotateOp",
    "PrefetchOp",
    "BindOp",
    "BlockType",
    "CacheReadOp",
    "CacheWriteOp",
    "ComputeAtOp",
    "ComputeInlineOp",
    "DecomposeReductionOp",
    "FuseOp",
    "GetBlockOp",
    "GetLoopsOp",
    "KnobOp",
    "LoopType",
    "ParallelOp",
    "ReorderOp",
    "Resolve",
    "ReverseComputeAtOp",
    "ReverseComputeInlineOp",
    "RfactorOp",
    "SchedOp",
    "SequenceOp",
    "SetScopeOp",
    "SplitOp",
    "StorageAlignOp",
    "TensorizeOp",
    "UnrollOp",
    "VectorizeOp",
    "VirtualThreadOp",
]
