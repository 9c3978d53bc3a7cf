"""Structures in memory that Python, the machine's code and the kernels share.

The fields of each are listed once, with their C types, from which both the ctypes structure and
the offsets in LLVM IR come.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_void_p

LANES = 32

INBOX_WORDS = 6
"""Most words that a lane hands to its warp at once: the factors of `mma.m16n8k16`."""

READY, AT_BARRIER, AT_MEETING, DONE = range(4)
"""States of a thread."""


class Thread(ctypes.Structure):
    """A thread of the block that runs.

    Attributes:
        number: its place in the block.
        place: the same along x, y and z.
        state: one of `READY`, `AT_BARRIER`, `AT_MEETING` and `DONE`.
        line: the line of the instruction where it waits.
        mask: the lanes that it waits for; at a barrier 1 if that is aligned, else 0.
        frame: the coroutine.
        inbox: what the lane hands to its warp.
        shared: what it handed when its warp last met.
    """

    _fields_ = [
        ("number", c_int32),
        ("place", c_int32 * 3),
        ("state", c_int32),
        ("line", c_int32),
        ("mask", c_int32),
        ("frame", c_void_p),
        ("inbox", c_int32 * INBOX_WORDS),
        ("shared", c_int32 * INBOX_WORDS),
    ]


class Fault(ctypes.Structure):
    """The first thing that went wrong.

    Attributes:
        kind: a number of `faults.FAULTS`, 0 if nothing did.
        line: of the instruction.
        thread: its number in the block.
        other: the thread that it conflicts with, or a second line.
        address: what was accessed.
    """

    _fields_ = [
        ("kind", c_int32),
        ("line", c_int32),
        ("thread", c_int32),
        ("other", c_int32),
        ("address", c_int64),
    ]


class Block(ctypes.Structure):
    """The block that runs, and the launch that it is part of.

    Attributes:
        grid, block: sizes of the launch.
        place: the block's own place in the grid.
        count: threads of a block.
        epoch: counts the barriers that all threads passed.
        parameters: values of the kernel's parameters, eight bytes each.
        allocations: begin and end of each range of global memory that may be accessed.
        variables: the same of shared memory, by offsets in it.
        shared: the block's shared memory.
        threads: an array of `Thread`.
        writers, readers: for each byte of shared memory its last access, an epoch and a thread;
            null if conflicts are not looked for.
    """

    _fields_ = [
        ("grid", c_int32 * 3),
        ("block", c_int32 * 3),
        ("place", c_int32 * 3),
        ("count", c_int32),
        ("epoch", c_int32),
        ("shared_bytes", c_int32),
        ("parameters", c_void_p),
        ("allocations", c_void_p),
        ("allocation_count", c_int64),
        ("variables", c_void_p),
        ("variable_count", c_int64),
        ("shared", c_void_p),
        ("threads", c_void_p),
        ("writers", c_void_p),
        ("readers", c_void_p),
        ("fault", Fault),
    ]


def offset(structure: type[ctypes.Structure], field: str, index: int = 0) -> int:
    """Bytes in front of a field, or of an element of an array of 32-bit numbers."""
    return getattr(structure, field).offset + 4 * index
