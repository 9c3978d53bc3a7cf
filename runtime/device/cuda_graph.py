"""CUDA graphs: launches and copies recorded from a stream, which one call enqueues again."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from tcopt.runtime.device.cuda_driver import HANDLE, CudaDriver

_RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED: the driver rejects no unrelated calls during a capture, such as
freeing memory when Python collects garbage."""

_CAPTURE = "capturing a graph of the kernels"


class Graph:
    """Executable graph in the current context."""

    def __init__(self, driver: CudaDriver, executable: int):
        self._driver = driver
        self._executable = executable

    @classmethod
    def capture(cls, driver: CudaDriver, stream: int, work: Callable[[int], None]) -> Graph | None:
        """Record work as a graph, without running it.

        Args:
            stream: a stream that nothing else uses during the capture.
            work: enqueues launches and copies on a stream.
        Returns:
            The graph; None if the driver does not support capturing this stream.
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
            # Also after an error: the stream is unusable until the capture ends.
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
        """Enqueue the recorded work on a stream."""
        arguments = (self._executable, stream)
        self._driver.call("cuGraphLaunch", *arguments, action="launching the graph of the kernels")

    def destroy(self) -> None:
        """Free the graph; it cannot be launched afterwards."""
        self._driver.code("cuGraphExecDestroy", self._executable)
