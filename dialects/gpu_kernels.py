"""Attributes of kernel-level functions that are launched on a grid of thread blocks."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation
from xdsl.utils.hints import isa

from tcopt.support.errors import VerificationError
from tcopt.support.ir.literals import Integers, integers

KERNEL = "gpu.kernel"
"""Marks a function that is launched on a grid."""

BLOCK_SIZE = "gpu.known_block_size"
GRID_SIZE = "gpu.known_grid_size"
"""Sizes of a block and of the grid along x, y and z, under MLIR's attribute names."""

SIZED_GRID = "size.grid"
"""The grid of a kernel for a range of sizes, as a `DimsAttr`; `GRID_SIZE` has the bounds."""

SHARED_SPACE = IntegerAttr(3, i64)
"""The memory space of block-shared buffers, with NVVM's number."""


def sizes_of(function: Operation, name: str) -> tuple[int, int, int]:
    """Return the `BLOCK_SIZE` or `GRID_SIZE` of a kernel.

    Raises:
        VerificationError: the kernel does not have it.
    """
    sizes = function.attributes.get(name)
    if not isa(sizes, Integers) or len(sizes) != 3:
        raise VerificationError(f"a kernel must have three numbers as {name}", op=function)
    x, y, z = integers(sizes)
    return x, y, z
