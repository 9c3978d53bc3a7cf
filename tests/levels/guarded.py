"""Run programs on memory that ends at a guard page."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence

import numpy as np

from tcopt.runtime.program import Program
from tcopt.support.machines.alignment import ALIGNMENT

_PAGE = mmap.PAGESIZE
_CANARY = 0xA5
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class GuardedBytes:
    """`size` bytes between two inaccessible pages.

    They end at the second page, or as close to it as their alignment allows; the remaining bytes
    hold a known value.
    """

    def __init__(self, size: int, alignment: int, fill: int = 0):
        inner = max(1, -(-size // _PAGE)) * _PAGE
        self._length = inner + 2 * _PAGE
        writable = mmap.PROT_READ | mmap.PROT_WRITE
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        base = _LIBC.mmap(None, self._length, writable, private, -1, 0)
        if base in (None, ctypes.c_void_p(-1).value):
            raise MemoryError(f"{self._length} bytes")
        self._base: int = base
        self._inner = base + _PAGE, inner
        room = np.frombuffer((ctypes.c_uint8 * inner).from_address(base + _PAGE), np.uint8)
        room[:] = _CANARY
        start = (inner - size) // alignment * alignment
        self.bytes = room[start : start + size]
        self.bytes[:] = fill
        self._around = room[:start], room[start + size :]
        self.address: int = base + _PAGE + start
        for guard in (base, base + _PAGE + inner):
            self._protect(guard, _PAGE, 0)

    def _protect(self, address: int, size: int, access: int) -> None:
        if _LIBC.mprotect(address, size, access):
            raise OSError(ctypes.get_errno(), "mprotect")

    def make_read_only(self) -> None:
        """Make the memory read-only."""
        self._protect(*self._inner, mmap.PROT_READ)

    def is_intact(self) -> bool:
        """Whether the surrounding bytes are unchanged."""
        return all(bool((part == _CANARY).all()) for part in self._around)

    def release(self) -> None:
        """Free the memory; arrays in it must not be used any more."""
        _LIBC.munmap(self._base, self._length)


class OutsideError(AssertionError):
    """Bytes next to a buffer were written."""


def run_guarded(
    program: Program, feeds: Sequence[np.ndarray], fill: int, threads: int = 1
) -> list[np.ndarray]:
    """Run a program on read-only inputs and buffers that end at guard pages.

    The random key is 0, and checks are written like outputs.

    Args:
        fill: initial value of every byte of outputs and workspace.
    Raises:
        OutsideError: bytes between a buffer and its guard page were written.
    """
    feeds = [*feeds, *(np.zeros([int(n or 0) for n in k.shape], k.dtype) for k in program.keys)]
    specs = [*program.outputs, *program.checks]
    inputs = [GuardedBytes(a.nbytes, max(1, a.dtype.itemsize)) for a in feeds]
    for place, array in zip(inputs, feeds, strict=True):
        place.bytes[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    sizes = [spec.dtype.itemsize * int(np.prod(spec.shape)) for spec in specs]
    outputs = [GuardedBytes(size, ALIGNMENT, fill) for size in sizes]
    weights = GuardedBytes(program.weights.nbytes, ALIGNMENT)
    weights.bytes[:] = program.weights
    for place in (*inputs, weights):
        place.make_read_only()
    workspace = GuardedBytes(program.workspace_bytes, ALIGNMENT, fill)
    places = [*inputs, *outputs, weights, workspace]
    program.entry.threads = threads
    program.entry((ctypes.c_void_p * len(places))(*(place.address for place in places)))
    if not all(place.is_intact() for place in places):
        raise OutsideError("bytes beside a buffer were written")
    results = [
        place.bytes.view(spec.dtype).reshape([int(n or 0) for n in spec.shape]).copy()
        for place, spec in zip(outputs, program.outputs, strict=False)
    ]
    for place in places:
        place.release()
    return results
