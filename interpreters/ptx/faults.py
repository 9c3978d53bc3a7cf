"""Faults of running kernels, and the error that reports one."""

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
)
"""By number; the first means that nothing did."""

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
) = range(len(FAULTS))


class PtxFaultError(TcoptError):
    """A kernel did what it must not do.

    Attributes:
        kind: a number of `FAULTS`.
        line: the line of the instruction in the module's text.
    """

    code = "ptx-fault"

    def __init__(self, kind: int, line: int, message: str, *, where: str):
        super().__init__(message, where=where)
        self.kind = kind
        self.line = line
