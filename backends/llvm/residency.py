"""Release of memory that LLVM's own code occupies between compiles."""

from __future__ import annotations

import ctypes
from pathlib import Path

_MAPS = Path("/proc/self/maps")
_DONT_NEED = 4


def release_code_pages() -> int:
    """Return the pages of LLVM's machine code, tens of megabytes, to the system.

    The pages are clean copies of a file and are loaded again on demand if LLVM is used. This is
    implemented for Linux only.

    Returns:
        The number of bytes of address space released.
    """
    try:
        lines = _MAPS.read_text().splitlines()
    except OSError:
        return 0
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    released = 0
    for line in lines:
        # Code pages only: data pages were modified by relocation.
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[1] == "r-xp" and "libllvmlite" in fields[5]:
            start, end = (int(text, 16) for text in fields[0].split("-"))
            if madvise(start, end - start, _DONT_NEED) == 0:
                released += end - start
    return released
