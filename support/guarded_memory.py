"""Memory between pages that may not be touched, and who touched them.

For processes that run code which nobody has checked yet: an access outside of the buffers ends
the process, with a last message that says where it was.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass

PAGE = mmap.PAGESIZE
_NONE, _READ, _WRITE = 0, 1, 2
_SHARED, _PRIVATE, _FIXED = 1, 2, 0x10
_ANONYMOUS = mmap.MAP_ANONYMOUS

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

REACH = 1 << 20
"""Bytes on each side that may be let read: about how far lanes that take no part lie behind."""


@dataclass
class Region:
    """Memory of one or more buffers between two pages that may not be touched.

    Attributes:
        base: of the pages, the first forbidden one included; `pages`: bytes of those between.
        start, size: of what the buffers take.
        guard: bytes of forbidden pages on each side.
        readable: whether the nearest of these, `REACH` bytes at most, may be read for now.
    """

    base: int
    pages: int
    start: int
    size: int
    writable: bool
    guard: int = PAGE
    readable: bool = False

    def free(self) -> None:
        """Give the memory back."""
        _libc.munmap(self.base, self.pages + 2 * self.guard)

    def let_read(self, readable: bool) -> None:
        """Let the nearest forbidden pages be read, or forbid it again; nobody may write there.

        Loads leave out lanes that are masked wherever these lie, but where the memory of all lanes
        is forbidden that takes a core hundreds of cycles, which it does not in usual memory.
        """
        if readable == self.readable:
            return
        reach = min(self.guard, REACH)
        for start in (self.base + self.guard - reach, self.base + self.guard + self.pages):
            if _libc.mprotect(start, reach, _READ if readable else _NONE):
                raise OSError(ctypes.get_errno(), "cannot change what may be read")
            if readable:
                # Pages are there once they have been read; masked lanes do not make them so.
                for place in range(start, start + reach, PAGE):
                    ctypes.c_uint8.from_address(place).value  # noqa: B018
        self.readable = readable

    def __contains__(self, address: int) -> bool:
        """Whether an address is in the region, or in the forbidden pages around."""
        return self.base <= address < self.base + self.pages + 2 * self.guard


def map_region(
    pages: int,
    start: int,
    size: int,
    *,
    writable: bool,
    file: int = -1,
    offset: int = -1,
    guard: int = PAGE,
) -> Region:
    """Pages of a file, or of zeros where `offset` is negative, between forbidden ones.

    Args:
        pages: bytes, a multiple of `PAGE`; `start`: where in them the buffers begin.
        guard: bytes of forbidden pages on each side, a multiple of `PAGE`.
    Raises:
        MemoryError: there is too little memory.
    """
    base = _map(None, pages + 2 * guard, _NONE, _PRIVATE | _ANONYMOUS, -1, 0)
    rights = _READ | _WRITE if writable else _READ
    if pages and offset >= 0:
        _map(base + guard, pages, rights, _SHARED | _FIXED, file, offset)
    elif pages:
        _map(base + guard, pages, rights, _PRIVATE | _ANONYMOUS | _FIXED, -1, 0)
    return Region(base, pages, base + guard + start, size, writable, guard)


def _map(base: int | None, size: int, rights: int, flags: int, file: int, offset: int) -> int:
    address = _libc.mmap(base, size, rights, flags, file, offset)
    if address in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"cannot map {size} bytes")
    return address


class _Action(ctypes.Structure):
    """`struct sigaction` of Linux's C libraries."""

    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_uint64 * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


def on_fault(tell: Callable[[int, int], None]) -> object:
    """Have bad accesses and instructions tell where and what they were before the process ends.

    Args:
        tell: is given the address and the signal; it has to end the process.
    Returns:
        What must be kept for that.
    """
    if not sys.platform.startswith("linux"):
        return None
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    def handle(number: int, info: int, context: int) -> None:
        tell(ctypes.c_uint64.from_address(info + 16).value, number)

    handler = kind(handle)
    with_information = 4
    action = _Action(ctypes.cast(handler, ctypes.c_void_p).value, flags=with_information)
    for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL):
        _libc.sigaction(int(number), ctypes.byref(action), None)
    return handler
