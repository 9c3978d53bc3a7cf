"""Runs of compiled programs on exact-size buffers next to inaccessible pages.

Inside `guarded()`, every program runs in this way: inputs and weights are read-only, outputs and
workspace end, or begin, at an inaccessible page. A kernel that accesses memory outside a buffer
ends the process by SIGSEGV. Each run is done twice, with buffers at the upper and at the lower
page, and with different initial content of outputs and workspace: if results differ, a kernel
returned or read uninitialised memory.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.checks import refuse_if_any
from tcopt.runtime.host_calls import as_code_has_it
from tcopt.runtime.program import Program
from tcopt.runtime.program_sizes import refuse_sizes
from tcopt.runtime.specs import TensorSpec
from tcopt.runtime.stopping import Control
from tcopt.support.data.random_keys import new_key
from tcopt.support.machines.alignment import ALIGNMENT
from tcopt.support.processes.cores import default_threads

Array = NDArray[Any]
PAGE = mmap.PAGESIZE
NONE, READ = 0, 1
CANARY = 0xA5
FILLS = (("upper", 0xFF), ("lower", 0x11))
"""For each run: the page next to the buffers, and their initial byte."""

_libc = ctypes.CDLL(None, use_errno=True)


class GuardError(AssertionError):
    """A program wrote next to a buffer, or its results depend on uninitialised memory."""


def _protect(address: int, size: int, access: int) -> None:
    if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), access):
        raise OSError(ctypes.get_errno(), "mprotect")


class GuardedBuffer:
    """`size` bytes next to an inaccessible page.

    Args:
        side: `upper` to end at the page after them, or `lower` to begin at the page before.
        alignment: alignment of the address; at the upper page it leaves a gap of fewer bytes, which
            is checked after the run.
        fill: initial value of each byte; the bytes between buffer and pages are `CANARY`.
    """

    def __init__(self, size: int, side: str, alignment: int, fill: int = 0):
        span = max(-(-size // PAGE), 1) * PAGE
        try:
            self._map = mmap.mmap(-1, span + 2 * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise MemoryError(str(error)) from error
        whole = np.frombuffer(self._map, np.uint8)
        first: int = whole.ctypes.data
        self._inside = whole[PAGE : PAGE + span]
        self._address, self._span = first + PAGE, span
        self._start = (span - size) // alignment * alignment if side == "upper" else 0
        self._inside[:] = CANARY
        self.bytes = self._inside[self._start : self._start + size]
        self.bytes[:] = fill
        self.address = self._address + self._start
        _protect(first, PAGE, NONE)
        _protect(self._address + span, PAGE, NONE)

    def make_read_only(self) -> None:
        """Make it read-only."""
        _protect(self._address, self._span, READ)

    def is_clean(self) -> bool:
        """Whether the bytes between the buffer and the pages are unchanged."""
        before, behind = self._inside[: self._start], self._inside[self._start + self.bytes.size :]
        return bool((before == CANARY).all() and (behind == CANARY).all())


def _read_only(data: Array, side: str, alignment: int) -> GuardedBuffer:
    raw = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
    buffer = GuardedBuffer(raw.size, side, alignment)
    buffer.bytes[:] = raw
    buffer.make_read_only()
    return buffer


def _results(program: Program) -> list[TensorSpec]:
    """Results of a program: outputs, values of sizes, and checks."""
    specs = (*program.outputs, *program.counts, *program.checks)
    return [as_code_has_it(spec) for spec in specs]


def _shapes(program: Program, feeds: Sequence[Array]) -> list[Sequence[int]]:
    """Shapes of the results of a run, the largest ones of those that the run defines."""
    own = (*program.counts, *program.checks)
    return [
        *program._sizes_of(feeds).outputs,
        *([int(extent or 0) for extent in spec.shape] for spec in own),
    ]


def _sizes(program: Program, feeds: Sequence[Array]) -> Array:
    """Values of the sizes of a run."""
    return np.array(program._sizes_of(feeds).values, np.int64)


@dataclass
class _Run:
    """The buffers of one run."""

    inputs: list[GuardedBuffer]
    outputs: list[GuardedBuffer]
    weights: GuardedBuffer
    workspace: GuardedBuffer
    shapes: Sequence[Sequence[int]]
    sizes: Array

    @classmethod
    def of(
        cls, program: Program, feeds: Sequence[Array], keys: Sequence[Array], side: str, fill: int
    ) -> _Run:
        shapes = _shapes(program, feeds)
        sizes = [
            math.prod(shape) * spec.dtype.itemsize
            for shape, spec in zip(shapes, _results(program), strict=True)
        ]
        return cls(
            [_read_only(feed, side, max(feed.itemsize, 1)) for feed in (*feeds, *keys)],
            [GuardedBuffer(size, side, ALIGNMENT, fill) for size in sizes],
            _read_only(program.weights, side, ALIGNMENT),
            GuardedBuffer(program.workspace_bytes, side, ALIGNMENT, fill),
            shapes,
            _sizes(program, feeds),
        )

    def call(self, program: Program, threads: int | None, control: Control | None) -> list[Array]:
        """Run the program's code and return its outputs."""
        addresses = [
            *(buffer.address for buffer in (*self.inputs, *self.outputs)),
            *(self.sizes[n:].ctypes.data for n in range(len(self.sizes))),
            *(buffer.address for buffer in (self.weights, self.workspace)),
        ]
        arguments = (ctypes.c_void_p * len(addresses))(*addresses)
        program.entry.threads = threads or default_threads()
        program.entry(arguments, control)
        for what, written in (("an output", self.outputs), ("the workspace", [self.workspace])):
            if not all(buffer.is_clean() for buffer in written):
                raise GuardError(f"bytes beside {what} were written")
        rows = zip(self.outputs, _results(program), self.shapes, strict=True)
        found = [np.frombuffer(b.bytes.tobytes(), s.dtype).reshape(shape) for b, s, shape in rows]
        first = len(program.outputs)
        counts = found[first : first + len(program.counts)]
        refuse_sizes(program.checked_sizes, program.counts, counts)
        return [*program._cut(found[:first], self.sizes, counts), *found[first:]]


def run_guarded(
    self: Program,
    feeds: Sequence[Array],
    threads: int | None = None,
    control: Control | None = None,
    memory: Sequence[Array | None] | None = None,
) -> list[Array]:
    """Run a program on arrays in the form of its code, once for each of `FILLS`, with one random
    key.

    Raises:
        GuardError: bytes next to a buffer were written, or results differ.
        InputError: the data is invalid.
    """
    keys = [new_key() for _ in self.keys]
    results = [_Run.of(self, feeds, keys, *way).call(self, threads, control) for way in FILLS]
    for spec, first, second in zip(_results(self), *results, strict=True):
        different = np.frombuffer(first.tobytes(), np.uint8) != np.frombuffer(
            second.tobytes(), np.uint8
        )
        if different.any():
            place = int(np.argmax(different)) // spec.dtype.itemsize
            raise GuardError(
                f"element {place} of {spec} depends on what was in memory: "
                f"{first.reshape(-1)[place]} or {second.reshape(-1)[place]}"
            )
    count = len(self.outputs)
    refuse_if_any(self.checks, results[0][count + len(self.counts) :])
    return results[0][:count]


@contextmanager
def guarded() -> Iterator[None]:
    """Run all programs between guard pages while the context is open."""
    plain = Program._run
    Program._run = run_guarded
    try:
        yield
    finally:
        Program._run = plain
