"""Runs of compiled programs whose buffers have exactly their size, between pages without access.

`guarded()` makes every run of a program one of that kind: inputs and weights are read-only, outputs
and workspace end, or begin, at a page that neither may be read nor written. A kernel that leaves
a buffer ends the process by SIGSEGV. Each run is done twice, with buffers against the upper and
against the lower page, and what outputs and workspace hold before differs: where results differ,
a kernel has returned what was in memory, or read it.
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
from tcopt.runtime.specs import TensorSpec
from tcopt.runtime.stopping import Control
from tcopt.support.alignment import ALIGNMENT
from tcopt.support.cores import default_threads
from tcopt.support.random_keys import new_key

Array = NDArray[Any]
PAGE = mmap.PAGESIZE
NONE, READ = 0, 1
CANARY = 0xA5
FILLS = (("upper", 0xFF), ("lower", 0x11))
"""For each run: against which page buffers lie, and the byte that is in them before."""

_libc = ctypes.CDLL(None, use_errno=True)


class GuardError(AssertionError):
    """A program wrote beside a buffer, or its results depend on what was in memory."""


def _protect(address: int, size: int, access: int) -> None:
    if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), access):
        raise OSError(ctypes.get_errno(), "mprotect")


class GuardedBuffer:
    """`size` bytes beside a page without access.

    Args:
        side: `upper`, so that they end at the page behind them, or `lower`.
        alignment: what the address is a multiple of; against the upper page up to that many bytes
            less one are left between, which are checked after the run.
        fill: the byte that is in them, and around them up to the pages `CANARY`.
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
        """From now on a write to it ends the process."""
        _protect(self._address, self._span, READ)

    def is_clean(self) -> bool:
        """Whether nothing was written between the bytes and the pages around."""
        before, behind = self._inside[: self._start], self._inside[self._start + self.bytes.size :]
        return bool((before == CANARY).all() and (behind == CANARY).all())


def _read_only(data: Array, side: str, alignment: int) -> GuardedBuffer:
    raw = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
    buffer = GuardedBuffer(raw.size, side, alignment)
    buffer.bytes[:] = raw
    buffer.make_read_only()
    return buffer


def _results(program: Program) -> list[TensorSpec]:
    """What a program gives: outputs and checks."""
    return [as_code_has_it(spec) for spec in (*program.outputs, *program.checks)]


def _shape(spec: TensorSpec) -> list[int]:
    return [int(extent or 0) for extent in spec.shape]


def _bytes(spec: TensorSpec) -> int:
    return math.prod(_shape(spec)) * spec.dtype.itemsize


@dataclass
class _Run:
    """The buffers of one run."""

    inputs: list[GuardedBuffer]
    outputs: list[GuardedBuffer]
    weights: GuardedBuffer
    workspace: GuardedBuffer

    @classmethod
    def of(cls, program: Program, feeds: Sequence[Array], side: str, fill: int) -> _Run:
        return cls(
            [_read_only(feed, side, max(feed.itemsize, 1)) for feed in feeds],
            [GuardedBuffer(_bytes(s), side, ALIGNMENT, fill) for s in _results(program)],
            _read_only(program.weights, side, ALIGNMENT),
            GuardedBuffer(program.workspace_bytes, side, ALIGNMENT, fill),
        )

    def call(self, program: Program, threads: int | None, control: Control | None) -> list[Array]:
        """Run the program's code; its outputs."""
        buffers = [*self.inputs, *self.outputs, self.weights, self.workspace]
        arguments = (ctypes.c_void_p * len(buffers))(*(b.address for b in buffers))
        program.entry.threads = threads or default_threads()
        program.entry(arguments, control)
        for what, written in (("an output", self.outputs), ("the workspace", [self.workspace])):
            if not all(buffer.is_clean() for buffer in written):
                raise GuardError(f"bytes beside {what} were written")
        pairs = zip(self.outputs, _results(program), strict=True)
        return [np.frombuffer(b.bytes.tobytes(), s.dtype).reshape(_shape(s)) for b, s in pairs]


def run_guarded(
    self: Program,
    feeds: Sequence[Array],
    threads: int | None = None,
    control: Control | None = None,
) -> list[Array]:
    """As a run of arrays as code has them, once for each of `FILLS`, with one random key.

    Raises:
        GuardError: bytes beside a buffer were written, or results differ.
        InputError: the data is refused.
    """
    feeds = [*feeds, *(new_key() for _ in self.keys)]
    results = [_Run.of(self, feeds, *way).call(self, threads, control) for way in FILLS]
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
    refuse_if_any(self.checks, results[0][count:])
    return results[0][:count]


@contextmanager
def guarded() -> Iterator[None]:
    """While it is open, all programs run between guard pages."""
    plain = Program._run
    Program._run = run_guarded
    try:
        yield
    finally:
        Program._run = plain
