"""What a function of the kernel level says when it is launched on a grid of blocks of threads."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation
from xdsl.utils.hints import isa

from tcopt.support.errors import VerificationError
from tcopt.support.literals import Integers, integers

KERNEL = "gpu.kernel"
"""Marks a function that is launched on a grid."""

BLOCK_SIZE = "gpu.known_block_size"
GRID_SIZE = "gpu.known_grid_size"
"""Its sizes along x, y and z, as MLIR names them."""

SHARED_SPACE = IntegerAttr(3, i64)
"""The memory space of buffers that the threads of a block share, numbered as NVVM does."""


def sizes_of(function: Operation, name: str) -> tuple[int, int, int]:
    """One of the sizes that a kernel says of its launch: `BLOCK_SIZE` or `GRID_SIZE`.

    Raises:
        VerificationError: it does not.
    """
    sizes = function.attributes.get(name)
    if not isa(sizes, Integers) or len(sizes) != 3:
        raise VerificationError(f"a kernel has three numbers as {name}", op=function)
    x, y, z = integers(sizes)
    return x, y, z
