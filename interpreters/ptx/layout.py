"""Memory layout of the structures shared by Python, the scheduler and translated kernels.

The fields are ctypes fields; the field offsets in LLVM IR are derived from them.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_void_p

LANES = 32

INBOX_WORDS = 6
"""Maximum number of words that a lane contributes to an exchange: operands of `mma.m16n8k16`."""

COPIES = 1024
"""Maximum number of asynchronous copies that a thread has in flight."""

READY, AT_BARRIER, AT_MEETING, DONE = range(4)
"""States of a thread."""


class Thread(ctypes.Structure):
    """Thread of the running block.

    Attributes:
        number: linear index in the block.
        place: index along x, y and z.
        state: `READY`, `AT_BARRIER`, `AT_MEETING` (in a warp exchange) or `DONE`.
        line: line of the instruction at which the thread waits.
        mask: lanes that the thread waits for; at a barrier 1 if the barrier is aligned, else 0.
        frame: coroutine frame.
        inbox: words that the lane contributes to the next exchange.
        shared: words that the lane contributed to the last completed exchange.
        copies: ring of `COPIES` asynchronous copies; null if the kernel has none.
        first, last: numbers of the oldest copy in flight, and of the next one to start.
        group: number of committed groups of copies.
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
        ("copies", c_void_p),
        ("first", c_int32),
        ("last", c_int32),
        ("group", c_int32),
    ]


class AsyncCopy(ctypes.Structure):
    """Asynchronous copy in flight.

    Attributes:
        target: offset in shared memory.
        source: address in global memory.
        size: bytes that are written.
        read: bytes that are read; the others are written as zeros.
        group: number of groups that were committed before.
    """

    _fields_ = [
        ("target", c_int64),
        ("source", c_int64),
        ("size", c_int64),
        ("read", c_int64),
        ("group", c_int32),
    ]


class PtxFault(ctypes.Structure):
    """First fault of the running block.

    Attributes:
        kind: index into `faults.FAULTS`; 0 without a fault.
        line: line of the faulting instruction.
        thread: linear index of the faulting thread in the block.
        other: the other thread or lane that is involved, if any.
        address: accessed address; for other faults a detail, such as a line or a mask.
    """

    _fields_ = [
        ("kind", c_int32),
        ("line", c_int32),
        ("thread", c_int32),
        ("other", c_int32),
        ("address", c_int64),
    ]


class PtxBlock(ctypes.Structure):
    """Running block, and the launch that it is part of.

    Attributes:
        grid, block: sizes of the launch.
        place: index of the block in the grid.
        count: number of threads in a block.
        epoch: counter that is incremented for each block and each barrier.
        parameters: values of the kernel's parameters, eight bytes each.
        allocations: start and end of each range of global memory that may be accessed.
        variables: start and end offsets of each variable in shared memory.
        shared: shared memory of the block.
        threads: array of `Thread`.
        writers, readers: for each byte of shared memory the epoch and thread of its last write and
            read; null if races are not detected.
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
        ("fault", PtxFault),
    ]


def offset(structure: type[ctypes.Structure], field: str, index: int = 0) -> int:
    """Return the byte offset of a field, or of an element of a field that is an i32 array."""
    return getattr(structure, field).offset + 4 * index
