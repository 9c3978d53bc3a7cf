"""The pass `check-races`.

A walk by hand: it runs kernels and edits nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from tcopt.dialects.gpu_kernels import KERNEL
from tcopt.interpreters.kernel import run_kernel
from tcopt.support.data.dtypes import numpy_dtype


@dataclass(frozen=True)
class CheckRacesPass(ModulePass):
    """Runs every GPU kernel once on random inputs, and reports data races between threads.

        "gpu.barrier"() : () -> ()
        memref.store %0, %s[%t] : memref<64xf32, 3 : i64>
        %1 = memref.load %s[%u] : memref<64xf32, 3 : i64>
    ->
        race: 'memref.load': thread 0 of block 0 reads element [63] of %s, which thread 63 of
        block 0 wrote by 'memref.store' at f.mlir:9:3, without a barrier in between

    The module is not changed. The pass runs after `lower-loop-to-kernel`. It interprets every
    thread, so it is for small shapes.

    Options:
        seed: of the inputs.
    Raises:
        RaceError: two threads access one element without a barrier in between, and one of them
            writes; or some threads of a block wait at a barrier that others do not reach.
        InputError: an access is out of bounds.
    """

    name = "check-races"

    seed: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rng = np.random.default_rng(self.seed)
        for function in op.ops:
            if isinstance(function, FuncOp) and KERNEL in function.attributes:
                types = function.body.block.arg_types
                run_kernel(function, [_random(type_, rng) for type_ in types])


def _random(type_: Attribute, rng: np.random.Generator) -> NDArray[Any]:
    assert isa(type_, MemRefType)
    dtype, shape = numpy_dtype(type_.get_element_type()), type_.get_shape()
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return rng.integers(0, 8, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)
