"""Small kernels of all kinds, for tests of schedule spaces."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from checks.cpu_kernels import data
from tcopt.dialects.graph import (
    AddOp,
    BlockwiseMatmulOp,
    MatmulOp,
    PoolOp,
    SoftmaxOp,
    TransposeOp,
)
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.dialects.graph.packed.packed_matmul import PackedMatmulOp
from tcopt.dialects.graph.packed.winograd import WinogradConvOp

# An operator and its operands.
CASES: dict[str, Callable[[], tuple]] = {
    "matmul": lambda: (MatmulOp, data(37, 20), data(20, 40, seed=1)),
    "batched": lambda: (MatmulOp, data(3, 19, 24), data(3, 24, 33, seed=1)),
    "deep": lambda: (partial(PackedMatmulOp, columns=45), data(33, 64), data(3, 64, 16, seed=1)),
    "row": lambda: (partial(PackedMatmulOp, columns=90), data(1, 24), data(6, 24, 16, seed=1)),
    "blockwise": lambda: (
        partial(BlockwiseMatmulOp, bits=4, columns=45),
        data(9, 64),
        np.random.default_rng(2).integers(0, 1 << 32, (2, 2, 4, 32), np.uint32),
        data(2, 2, 32, seed=1),
    ),
    "conv": lambda: (BlockedConvOp, data(1, 2, 7, 9, 8), data(3, 2, 3, 3, 8, 8, seed=1)),
    "pointwise": lambda: (
        partial(BlockedConvOp, strides=[2, 2]),
        data(2, 2, 7, 7, 8),
        data(4, 2, 1, 1, 8, 8, seed=1),
    ),
    "winograd": lambda: (
        partial(WinogradConvOp, tile=2, pads=[1] * 4),
        data(1, 2, 8, 8, 8),
        data(4, 4, 3, 2, 8, 8, seed=1),
    ),
    "softmax": lambda: (partial(SoftmaxOp, axis=-1), data(24, 37)),
    "columns": lambda: (partial(SoftmaxOp, axis=0), data(9, 40)),
    "add": lambda: (AddOp, data(9, 35), data(9, 35, seed=1)),
    "transpose": lambda: (partial(TransposeOp, perm=[1, 0, 2]), data(5, 9, 20)),
    "pool": lambda: (
        partial(PoolOp, kind="max", kernel=[3, 3], strides=[2, 2]),
        data(1, 3, 15, 17),
    ),
}
