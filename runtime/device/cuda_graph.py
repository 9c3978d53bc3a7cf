"""CUDA graphs: what was put on a stream, to be put there again by one call.

pycuda has no graphs, so the driver's own functions are called, which work on pycuda's streams.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

_LIBRARY = "libcuda.so.1"
_THREAD_LOCAL = 1
"""CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads of the process may use the driver."""

_HANDLE = ctypes.c_void_p
_FUNCTIONS = {
    "cuStreamBeginCapture_v2": (_HANDLE, ctypes.c_int),
    "cuStreamEndCapture": (_HANDLE, ctypes.POINTER(_HANDLE)),
    "cuGraphInstantiateWithFlags": (ctypes.POINTER(_HANDLE), _HANDLE, ctypes.c_uint64),
    "cuGraphLaunch": (_HANDLE, _HANDLE),
    "cuGraphDestroy": (_HANDLE,),
    "cuGraphExecDestroy": (_HANDLE,),
}


@cache
def _driver() -> dict[str, Callable[..., int]] | None:
    """The driver's functions by name, None where it is missing or too old for graphs."""
    try:
        library = ctypes.CDLL(_LIBRARY)
        functions = {name: getattr(library, name) for name in _FUNCTIONS}
    except (OSError, AttributeError):
        return None
    for name, function in functions.items():
        function.argtypes, function.restype = _FUNCTIONS[name], ctypes.c_int
    return functions


class Graph:
    """A graph made from what a function puts on a stream, in the context that is current."""

    def __init__(self, stream: int, executable: ctypes.c_void_p):
        self._stream = stream
        self._executable = executable

    @classmethod
    def capture(cls, stream: int, work: Callable[[], None]) -> Graph | None:
        """The graph of some work, which is not done; None where the driver does not make one.

        Args:
            stream: the handle of the stream that the work goes to.
        """
        driver = _driver()
        if driver is None or driver["cuStreamBeginCapture_v2"](stream, _THREAD_LOCAL):
            return None
        graph, executable = _HANDLE(), _HANDLE()
        try:
            work()
        finally:
            failed = driver["cuStreamEndCapture"](stream, ctypes.byref(graph))
        if failed or not graph:
            return None
        failed = driver["cuGraphInstantiateWithFlags"](ctypes.byref(executable), graph, 0)
        driver["cuGraphDestroy"](graph)
        return None if failed else cls(stream, executable)

    def launch(self) -> bool:
        """Put the work on the stream; whether the driver took it."""
        driver = _driver()
        return driver is not None and not driver["cuGraphLaunch"](self._executable, self._stream)

    def destroy(self) -> None:
        """Give the graph back; it cannot be launched any more."""
        driver = _driver()
        if driver is not None:
            driver["cuGraphExecDestroy"](self._executable)
