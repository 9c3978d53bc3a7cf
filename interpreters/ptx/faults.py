"""Faults that kernels can raise at run time, and the exception that reports one."""

from __future__ import annotations

from tcopt.support.errors import TcoptError

FAULTS = (
    "",
    "misaligned address",
    "access outside of the buffers",
    "access outside of the shared variables",
    "access outside of the thread's own variables",
    "barrier that not all threads reach",
    "warp whose lanes are at different instructions",
    "warp whose lanes name different masks",
    "lane that is read and takes no part",
    "race: read of a byte that another thread wrote since the last barrier",
    "race: write of a byte that another thread wrote since the last barrier",
    "race: write of a byte that another thread read since the last barrier",
    "asynchronous copies that exceed the interpreter's limit",
)
"""Descriptions by fault number; number 0 means no fault."""

(
    _NONE,
    MISALIGNED,
    OUTSIDE,
    OUTSIDE_SHARED,
    OUTSIDE_LOCAL,
    BARRIER,
    DIVERGENT,
    MASKS,
    LANE,
    READ_AFTER_WRITE,
    WRITE_AFTER_WRITE,
    WRITE_AFTER_READ,
    COPIES,
) = range(len(FAULTS))


class PtxFaultError(TcoptError):
    """Fault of a running kernel, such as a race or an out-of-bounds access.

    Attributes:
        kind: index into `FAULTS`.
        line: line of the instruction in the module's text.
    """

    code = "ptx-fault"

    def __init__(self, kind: int, line: int, message: str, *, where: str):
        super().__init__(message, where=where)
        self.kind = kind
        self.line = line
