"""CUDA graphs: work recorded from a stream, which one call puts there again."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from tcopt.runtime.device.cuda_driver import HANDLE, CudaDriver

_RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED: no call is refused while another stream is captured, such as one
that frees memory when Python collects garbage."""

_CAPTURE = "capturing a graph of the kernels"


class Graph:
    """An executable graph in the current context."""

    def __init__(self, driver: CudaDriver, executable: int):
        self._driver = driver
        self._executable = executable

    @classmethod
    def capture(cls, driver: CudaDriver, stream: int, work: Callable[[int], None]) -> Graph | None:
        """Record work as a graph, without running it.

        Args:
            stream: is used for nothing else meanwhile.
            work: puts launches and copies on a stream.
        Returns:
            The graph; None if the driver has no graphs for this stream.
        Raises:
            BackendError: the driver rejects some of the work.
        """
        code = driver.code("cuStreamBeginCapture_v2", stream, _RELAXED)
        if driver.is_unsupported(code):
            return None
        if code:
            raise driver.error(code, _CAPTURE)
        graph = HANDLE()
        try:
            work(stream)
        finally:
            # Also after an error: until the capture ends, the stream takes nothing else.
            code = driver.code("cuStreamEndCapture", stream, ctypes.byref(graph))
        if code:
            raise driver.error(code, _CAPTURE)
        try:
            executable = driver.get(
                "cuGraphInstantiateWithFlags", HANDLE, graph, 0, action=_CAPTURE
            )
        finally:
            driver.call("cuGraphDestroy", graph, action="destroying a graph")
        return cls(driver, executable)

    def launch(self, stream: int) -> None:
        """Put the work on a stream."""
        arguments = (self._executable, stream)
        self._driver.call("cuGraphLaunch", *arguments, action="launching the graph of the kernels")

    def destroy(self) -> None:
        """Free the graph, which cannot be launched any more."""
        self._driver.code("cuGraphExecDestroy", self._executable)
