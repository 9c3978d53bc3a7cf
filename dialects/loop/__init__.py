"""The loop dialect: loop nests, blocks, and buffers with memory scopes."""

from xdsl.ir import Dialect

from tcopt.dialects.loop.access import LoadOp, StoreOp, is_same_place
from tcopt.dialects.loop.attrs import (
    BLOCK_AXES,
    THREAD_AXES,
    IterKind,
    IterKindAttr,
    LoopKind,
    LoopKindAttr,
    ThreadAxis,
    ThreadAxisAttr,
)
from tcopt.dialects.loop.block import BlockOp, GuardOp, InitOp, owning_block
from tcopt.dialects.loop.border import BorderOp
from tcopt.dialects.loop.index_ops import IndexOp, MaskOp
from tcopt.dialects.loop.intrin import IntrinOp
from tcopt.dialects.loop.memory import (
    AllocOp,
    BarrierOp,
    CallOp,
    PopTokenOp,
    PushTokenOp,
    SliceOp,
    WeightOp,
)
from tcopt.dialects.loop.prefetch import PrefetchOp
from tcopt.dialects.loop.scopes import Scope, ScopeAttr, Sharing
from tcopt.dialects.loop.structure import (
    ForOp,
    FuncOp,
    enclosing_loops,
    function_of,
    is_in_block,
    is_thread,
    loop_of,
    path_to,
)

DIALECT = Dialect(
    "loop",
    [
        AllocOp,
        BarrierOp,
        BlockOp,
        BorderOp,
        CallOp,
        ForOp,
        FuncOp,
        GuardOp,
        IndexOp,
        InitOp,
        IntrinOp,
        LoadOp,
        MaskOp,
        PopTokenOp,
        PrefetchOp,
        PushTokenOp,
        SliceOp,
        StoreOp,
        WeightOp,
    ],
    [IterKindAttr, LoopKindAttr, ScopeAttr, ThreadAxisAttr],
)

__all__ = [
    "BLOCK_AXES",
    "DIALECT",
    "THREAD_AXES",
    "AllocOp",
    "BarrierOp",
    "BlockOp",
    "BorderOp",
    "CallOp",
    "ForOp",
    "FuncOp",
    "GuardOp",
    "IndexOp",
    "InitOp",
    "IntrinOp",
    "IterKind",
    "IterKindAttr",
    "LoadOp",
    "LoopKind",
    "LoopKindAttr",
    "MaskOp",
    "PopTokenOp",
    "PrefetchOp",
    "PushTokenOp",
    "Scope",
    "ScopeAttr",
    "Sharing",
    "SliceOp",
    "StoreOp",
    "ThreadAxis",
    "ThreadAxisAttr",
    "WeightOp",
    "enclosing_loops",
    "function_of",
    "is_in_block",
    "is_same_place",
    "is_thread",
    "loop_of",
    "owning_block",
    "path_to",
]
