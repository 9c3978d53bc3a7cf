"""Memory between guard pages, and a handler that reports invalid accesses.

For processes that run unverified code: an out-of-bounds access ends the process with a final
message about the address.
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
"""Maximum number of bytes on each side made readable; covers the reach of masked lanes."""


@dataclass
class GuardedRegion:
    """Memory of one or more buffers between guard pages.

    Attributes:
        base: start of the mapping, including the first guard; `pages`: bytes between the guards.
        start, size: address and size of the buffers.
        guard: size of the guard pages on each side in bytes.
        readable: whether the nearest guard pages, up to `REACH` bytes, are currently readable.
    """

    base: int
    pages: int
    start: int
    size: int
    writable: bool
    guard: int = PAGE
    readable: bool = False

    def free(self) -> None:
        """Unmap the memory."""
        _libc.munmap(self.base, self.pages + 2 * self.guard)

    def let_read(self, readable: bool) -> None:
        """Make the nearest guard pages readable or inaccessible; they are never writable.

        Masked lanes of a load may point anywhere. But if all lanes of a load are in inaccessible
        memory, it takes hundreds of cycles, unlike in ordinary memory.
        """
        if readable == self.readable:
            return
        reach = min(self.guard, REACH)
        for start in (self.base + self.guard - reach, self.base + self.guard + self.pages):
            if _libc.mprotect(start, reach, _READ if readable else _NONE):
                raise OSError(ctypes.get_errno(), "cannot change the protection of guard pages")
            if readable:
                # Pages are mapped at the first read, which masked lanes do not cause.
                for place in range(start, start + reach, PAGE):
                    ctypes.c_uint8.from_address(place).value  # noqa: B018
        self.readable = readable

    def __contains__(self, address: int) -> bool:
        """Whether an address is in the region or its guard pages."""
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
) -> GuardedRegion:
    """Map pages of a file, or zeroed pages if `offset` is negative, between guard pages.

    Args:
        pages: size in bytes, a multiple of `PAGE`; `start`: offset of the buffers.
        guard: size of the guard pages on each side in bytes, a multiple of `PAGE`.
    Raises:
        MemoryError: not enough memory.
    """
    base = _map(None, pages + 2 * guard, _NONE, _PRIVATE | _ANONYMOUS, -1, 0)
    rights = _READ | _WRITE if writable else _READ
    if pages and offset >= 0:
        _map(base + guard, pages, rights, _SHARED | _FIXED, file, offset)
    elif pages:
        _map(base + guard, pages, rights, _PRIVATE | _ANONYMOUS | _FIXED, -1, 0)
    return GuardedRegion(base, pages, base + guard + start, size, writable, guard)


def _map(base: int | None, size: int, rights: int, flags: int, file: int, offset: int) -> int:
    address = _libc.mmap(base, size, rights, flags, file, offset)
    if address in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"cannot map {size} bytes")
    return address


class _Action(ctypes.Structure):
    """`struct sigaction` of the C libraries of Linux."""

    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_uint64 * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


def on_fault(tell: Callable[[int, int], None]) -> object:
    """Install a handler that reports invalid accesses and instructions before the process ends.

    Args:
        tell: receives the address and the signal number; it must end the process.
    Returns:
        An object to keep alive while the handler is installed.
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
