"""Memory pool of results: a block is reused once no array refers to it.

Fresh pages are more expensive than most kernels: the system clears each page at its first access,
which takes longer than computing an elementwise operator into it.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.specs import TensorSpec, bytes_of
from tcopt.support.machines.alignment import ALIGNMENT

Array = NDArray[Any]


class _Block(NamedTuple):
    """A block of bytes, with the offset and address of its first aligned byte."""

    raw: NDArray[np.uint8]
    start: int
    address: int

    @classmethod
    def of(cls, size: int) -> _Block:
        raw = np.empty(size + ALIGNMENT, np.uint8)
        address: int = raw.ctypes.data
        start = -address % ALIGNMENT
        return cls(raw, start, address + start)

    def references(self) -> int:
        """Return the reference count of the bytes: the block itself, the call, and arrays in it."""
        return sys.getrefcount(self.raw)


_UNUSED_REFERENCES = _Block.of(0).references()
"""Reference count of an unused block, which depends on the Python version."""


def align(raw: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Return `size` bytes of a block, starting at the first address aligned to `ALIGNMENT`."""
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


class OutputPool:
    """The memory blocks of one output's arrays.

    An array made here and every view of it refer to its block; the block is reused when all of them
    are gone. One unused block is kept.
    """

    def __init__(self, spec: TensorSpec):
        self.dtype = spec.dtype
        self.size = bytes_of(spec)
        self.blocks: list[_Block] = []

    def take(self, shape: tuple[int, ...]) -> tuple[Array, int]:
        """Return an uninitialised array that does not alias any array in use.

        Args:
            shape: shape of the array, at most that of the output in each dimension.
        Returns:
            The array, and its address.
        """
        raw, start, address = self._free_block()
        return np.ndarray(shape, self.dtype, raw, start), address

    def _free_block(self) -> _Block:
        if self.blocks and self.blocks[-1].references() <= _UNUSED_REFERENCES:
            return self.blocks[-1]
        found: _Block | None = None
        in_use: list[_Block] = []
        for block in self.blocks:
            if found is None and block.references() <= _UNUSED_REFERENCES:
                found = block
            else:
                in_use.append(block)
        if found is None:
            found = _Block.of(self.size)
        # Blocks in use are owned by their arrays, so the pool needs to remember only the last one.
        self.blocks = [*in_use[-1:], found]
        return found
