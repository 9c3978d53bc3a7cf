"""Execution of native code in a child process, whose crashes this one survives.

One child serves all calls and is replaced when it dies. A crash, an out-of-bounds write and a run
that does not end become `NativeFault`s.
"""

from __future__ import annotations

import atexit
import mmap
import os
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.errors import BackendError, TcoptError, UnsupportedError
from tcopt.support.processes.child_process import ChildDied, ChildError, ChildLate, ChildProcess
from tcopt.support.processes.cores import default_threads

Array = NDArray[Any]

PAGE = mmap.PAGESIZE
CANARY = 0xA5
"""Value of the bytes between a buffer and the end of its page."""

COMPILE_LIMIT = 300.0
"""Time limit of code generation in seconds."""

_CHILD = "tcopt.tools.execution.native_child"


class NativeFault(TcoptError):
    """Native code crashed, accessed memory out of bounds, or did not end."""

    code = "native-fault"


@dataclass(frozen=True)
class ProcessBuffer:
    """An array argument; `name` is for messages."""

    array: Array
    writable: bool
    name: str


@dataclass(frozen=True)
class Scratch:
    """An argument that is `size` bytes of zero-initialised scratch memory."""

    size: int


@dataclass(frozen=True)
class ProcessScalar:
    """A scalar argument of an LLVM type."""

    type_: str
    value: int | float


Argument = ProcessBuffer | Scratch | ProcessScalar
Sizes = tuple[int, int, int]
Handle = tuple[int, int]
"""Loaded code: the number of the process, and the number of the code in it."""


@dataclass
class _SharedRange:
    """Location of the bytes of overlapping arrays in the shared file.

    Attributes:
        low, high: addresses of the arrays' memory in this process.
        offset, pages, start: offset and size of the pages in the shared file, and offset of the
            bytes in them.
    """

    low: int
    high: int
    writable: bool
    names: list[str]
    offset: int = 0
    pages: int = 0
    start: int = 0


class NativeProcess:
    """A child process that compiles and runs code."""

    def __init__(self) -> None:
        self._child: ChildProcess | None = None
        self._file = -1
        self._map: mmap.mmap | None = None
        self._bytes: NDArray[np.uint8] = np.zeros(0, np.uint8)

    @property
    def started(self) -> int:
        """Number of children started so far."""
        return 0 if self._child is None else self._child.started

    def load(
        self,
        text: str,
        exports: Sequence[str],
        externals: Sequence[str] = (),
        *,
        effort: int | None = None,
        shuffled: bool = False,
    ) -> Handle:
        """Compile LLVM IR text.

        Args:
            effort: LLVM's optimisation level for plain text; by default the text is already in its
                final shape.
            shuffled: run the iterations of parallel loops one at a time, in another order.
        Returns:
            A handle for `call`.
        Raises:
            BackendError: the text is malformed.
            NativeFault: the code generator ended the process.
        """
        request = {
            "load": text,
            "effort": effort,
            "shuffled": shuffled,
            "exports": list(exports),
            "externals": list(externals),
            "threads": max(default_threads(), 2),
        }
        return self._loaded(request)

    def load_ptx(self, text: str) -> Handle:
        """Translate PTX for the interpreter of `interpreters.ptx`.

        Returns:
            A handle for `launch`.
        Raises:
            UnsupportedError: the interpreter does not know an instruction.
            BackendError: the text is wrong.
            NativeFault: the code generator ended the process.
        """
        return self._loaded({"load_ptx": text})

    def _loaded(self, request: dict[str, Any]) -> Handle:
        try:
            reply = self._ask(request, COMPILE_LIMIT, "code generation", ())
        except ChildError as error:
            unsupported = error.reported == UnsupportedError.code
            raise (UnsupportedError if unsupported else BackendError)(error.message) from None
        return self.started, reply["handle"]

    @property
    def pid(self) -> int | None:
        """Process id of the child, if it is running."""
        return None if self._child is None else self._child.pid

    def has(self, handle: Handle | None) -> bool:
        """Whether the process that compiled the code is still running."""
        child = self._child
        if handle is None or child is None:
            return False
        return child.pid is not None and handle[0] == child.started

    def forget(self, handle: Handle) -> None:
        """Unload code from the child."""
        if self.has(handle):
            self._ask({"forget": handle[1]}, COMPILE_LIMIT, "unloading", ())

    def call(
        self,
        handle: Handle,
        symbol: str,
        arguments: Sequence[Argument],
        *,
        result: str = "",
        packed: bool = False,
        at_end: bool = True,
        limit: float = 60.0,
    ) -> Any:
        """Call a function; writable buffers change in place.

        Args:
            result: LLVM type of the result, if there is one.
            packed: whether it takes the address of an array of its arguments.
            at_end: place buffers directly before the following inaccessible page, instead of
                directly after the preceding one.
            limit: time limit in seconds.
        Raises:
            NativeFault: it crashed, wrote outside of its buffers or did not end.
        """
        request = {"call": handle[1], "symbol": symbol, "result": result, "packed": packed}
        return self._run(handle, request, arguments, at_end=at_end, limit=limit)

    def launch(
        self,
        handle: Handle,
        kernel: str,
        sizes: tuple[Sizes, Sizes],
        buffers: Sequence[ProcessBuffer],
        *,
        limit: float = 60.0,
    ) -> None:
        """Run a kernel of PTX; writable buffers change in place.

        Args:
            sizes: of the grid and of its blocks.
            limit: seconds that it may take.
        Raises:
            NativeFault: it did something illegal or did not end.
        """
        request = {"launch": handle[1], "symbol": kernel, "sizes": sizes}
        self._run(handle, request, buffers, at_end=False, limit=limit)

    def _run(
        self,
        handle: Handle,
        request: dict[str, Any],
        arguments: Sequence[Argument],
        *,
        at_end: bool,
        limit: float,
    ) -> Any:
        """Let the process run something on arguments."""
        if not self.has(handle):
            raise NativeFault("the process that had the code is gone")
        places = _places(arguments)
        self._reserve(places, at_end=at_end)
        for place in places:
            self._fill(place)
        regions = [
            {
                "offset": place.offset,
                "pages": place.pages,
                "start": place.start,
                "size": place.high - place.low,
                "writable": place.writable,
            }
            for place in places
        ]
        request["arguments"] = [_argument(each, places, regions) for each in arguments]
        request["regions"] = regions
        try:
            reply = self._ask(request, limit, "the code", _names(places, regions))
        except ChildError as error:
            raise NativeFault(error.message) from None
        for place in places:
            self._take(place)
        return reply["result"]

    # Transfer of buffers.

    def _reserve(self, places: Sequence[_SharedRange], *, at_end: bool) -> None:
        total = 0
        for place in places:
            size = place.high - place.low
            place.pages = -(-size // PAGE) * PAGE
            place.start = place.pages - size if at_end else 0
            place.offset = total
            total += place.pages
        if total > len(self._bytes):
            os.ftruncate(self._file, 2 * total)
            self._map = mmap.mmap(self._file, 2 * total)
            self._bytes = np.frombuffer(self._map, np.uint8)

    def _fill(self, place: _SharedRange) -> None:
        page = self._bytes[place.offset : place.offset + place.pages]
        size = place.high - place.low
        page[: place.start] = CANARY
        page[place.start + size :] = CANARY
        page[place.start : place.start + size] = _memory(place.low, size)

    def _take(self, place: _SharedRange) -> None:
        """Copy back the contents of a buffer, after checking the canaries around it."""
        if not place.writable:
            return
        page = self._bytes[place.offset : place.offset + place.pages]
        end = place.start + place.high - place.low
        for beside, where in ((page[: place.start], "before"), (page[end:], "after")):
            if np.any(beside != CANARY):
                raise NativeFault(f"the code writes {where} {', '.join(place.names)}")
        _memory(place.low, place.high - place.low)[...] = page[place.start : end]

    # Messages to the child.

    def _ask(
        self, request: dict[str, Any], limit: float, what: str, names: Sequence[str]
    ) -> dict[str, Any]:
        child = self._child = self._child or self._made()
        try:
            reply, _ = child.ask(request, limit=limit, busy=True)
        except ChildLate:
            raise NativeFault(
                f"{what} does not end within {limit:.3g} s", hint="--exec-limit sets another limit"
            ) from None
        except ChildDied as error:
            raise NativeFault(f"{what} ends the process it runs in ({error.status})") from None
        if "fault" in reply:
            self.stop()
            raise NativeFault(_explain(reply["fault"], what, names))
        return reply

    def _made(self) -> ChildProcess:
        self._file = _shared_file()
        atexit.register(self.stop)
        return ChildProcess(_CHILD, self._file, files=[self._file])

    def stop(self) -> None:
        """Stop the child; the next request starts another."""
        if self._child is not None:
            self._child.stop()


def _names(places: Sequence[_SharedRange], regions: Sequence[Any]) -> list[str]:
    names = [", ".join(place.names) for place in places]
    return names + ["the memory for intermediate values"] * (len(regions) - len(places))


def _shared_file() -> int:
    """Return an anonymous file, in memory if the system supports that."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tcopt")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _explain(fault: dict[str, Any], what: str, names: Sequence[str]) -> str:
    name = signal.Signals(fault["signal"]).name
    if "region" not in fault:
        return f"{what} ends the process it runs in ({name})"
    buffer, offset, size = names[fault["region"]], fault["offset"], fault["size"]
    if offset < 0:
        return f"{what} accesses memory {-offset} bytes before {buffer}"
    if offset >= size:
        return f"{what} accesses memory {offset - size} bytes after the end of {buffer}"
    return f"{what} writes to {buffer}, which it may only read"


def _memory(address: int, size: int) -> NDArray[np.uint8]:
    """Return a view of memory of this process."""
    import ctypes

    if not size:
        return np.zeros(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _places(arguments: Sequence[Argument]) -> list[_SharedRange]:
    """Return the memory ranges of all arrays, merging those that overlap."""
    spans = [
        (each.array.ctypes.data, each.array.ctypes.data + each.array.nbytes, each)
        for each in arguments
        if isinstance(each, ProcessBuffer)
    ]
    places: list[_SharedRange] = []
    for low, high, each in sorted(spans, key=lambda span: span[:2]):
        if places and low < places[-1].high:
            last = places[-1]
            last.high = max(last.high, high)
            last.writable |= each.writable
            last.names.append(each.name)
        else:
            places.append(_SharedRange(low, high, each.writable, [each.name]))
    return places


def _argument(
    argument: Argument, places: Sequence[_SharedRange], regions: list[dict[str, Any]]
) -> tuple[str, int | float, int]:
    match argument:
        case ProcessScalar():
            return argument.type_, argument.value, 0
        case Scratch():
            pages = -(-argument.size // PAGE) * PAGE
            regions.append(
                {"offset": -1, "pages": pages, "start": 0, "size": pages, "writable": True}
            )
            return "ptr", len(regions) - 1, 0
        case ProcessBuffer():
            low = argument.array.ctypes.data
            for number, place in enumerate(places):
                if place.low <= low <= place.high and low + argument.array.nbytes <= place.high:
                    return "ptr", number, low - place.low
            raise AssertionError("every array has a place")


_SHARED: list[NativeProcess] = []


def native_process() -> NativeProcess:
    """Return the child process shared by all checks in this process."""
    if not _SHARED:
        _SHARED.append(NativeProcess())
    return _SHARED[0]
