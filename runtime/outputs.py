"""Memory of results: taken again for later runs once nobody holds what it was given for.

Fresh pages cost more than most kernels: the system clears each one at its first touch, which
takes longer than computing an elementwise operator into it.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.specs import TensorSpec
from tcopt.support.alignment import ALIGNMENT

Array = NDArray[Any]


class _Block(NamedTuple):
    """Bytes, and the offset and address of the first that is aligned."""

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
        """What Python counts for the bytes: the block itself, the call, the arrays in them."""
        return sys.getrefcount(self.raw)


_UNUSED_REFERENCES = _Block.of(0).references()
"""The count for a block in which no array lives; it varies by version of Python."""


def align(raw: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """The first `size` bytes of a block from where its address is a multiple of `ALIGNMENT`."""
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


class OutputPool:
    """The blocks that one output's arrays live in.

    An array made here, and every view of it, holds its block; the block is free for another
    array when all of them are gone. One block beyond those in use is kept.
    """

    def __init__(self, spec: TensorSpec):
        self.dtype = spec.dtype
        self.shape = tuple(int(d) for d in spec.shape if d is not None)
        self.size = int(np.prod(self.shape)) * spec.dtype.itemsize
        self.blocks: list[_Block] = []

    def take(self) -> tuple[Array, int]:
        """An array of undefined values that shares memory with no other that is in use.

        Returns:
            The array, and its address.
        """
        raw, start, address = self._free_block()
        return np.ndarray(self.shape, self.dtype, raw, start), address

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
        # Those in use are owned by their arrays; all but the last few need not come back.
        self.blocks = [*in_use[-1:], found]
        return found
