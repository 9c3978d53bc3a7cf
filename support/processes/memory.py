"""Memory of this process: whether there is enough, and pages of files that it can do without."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_PIECE = 8 << 20
"""Bytes of a file that are copied before their pages are released."""


def can_map(size: int) -> bool:
    """Whether the system can map `size` bytes of address space; they are released at once."""
    try:
        # The memory is never touched, so this is cheap.
        mmap.mmap(-1, size).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def copy_and_release(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Copy an array; if it views a read-only mapping of a file, release the pages it was read from.

    Otherwise a copied file would be in memory twice. The system reads released pages again when
    they are used.
    """
    for rows in _pieces(source):
        target[rows] = source[rows]
        _release_pages(source[rows])


def _pieces(array: NDArray[Any]) -> Iterator[Any]:
    """Yield indices of consecutive parts of an array, of about `_PIECE` bytes each."""
    if array.nbytes <= _PIECE:
        yield ...
        return
    rows = max(1, _PIECE // array[0].nbytes)
    for first in range(0, len(array), rows):
        yield slice(first, first + rows)


def _release_pages(array: NDArray[Any]) -> None:
    """Release the pages of a read-only mapping that an array covers completely."""
    mapping = _mapping_of(array)
    if mapping is None or not array.flags.c_contiguous:
        return
    start = array.ctypes.data - np.frombuffer(mapping, np.uint8).ctypes.data
    first, end = -(-start // mmap.PAGESIZE), (start + array.nbytes) // mmap.PAGESIZE
    if first < end:
        pages = first * mmap.PAGESIZE, (end - first) * mmap.PAGESIZE
        mapping.madvise(mmap.MADV_DONTNEED, *pages)


def _mapping_of(array: NDArray[Any]) -> mmap.mmap | None:
    """Return the read-only mapping of a file that an array views; None if it views none."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    # Released pages of a private mapping that was written to would lose their values.
    if isinstance(owner, mmap.mmap) and memoryview(owner).readonly and hasattr(owner, "madvise"):
        return owner
    return None
