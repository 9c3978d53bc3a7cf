"""The steps of a run on a device: launches of kernels and copies, on places in buffers.

Everything is known when a model is compiled; a run goes through the list and evaluates nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

Sizes = tuple[int, int, int]


@dataclass(frozen=True)
class BufferOffset:
    """Bytes in a buffer.

    Attributes:
        buffer: the number of the argument of @main.
        offset: bytes in front of it.
    """

    buffer: int
    offset: int = 0


@dataclass(frozen=True)
class Launch:
    """A kernel on a grid of blocks of threads.

    Attributes:
        nodes: the ONNX nodes that it computes, for messages.
    """

    kernel: str
    grid: Sizes
    block: Sizes
    arguments: tuple[BufferOffset, ...]
    nodes: str = ""

    @property
    def description(self) -> str:
        """Name the launch in a message."""
        computed = f" of {self.nodes}" if self.nodes else ""
        grid, block = (" x ".join(map(str, sizes)) for sizes in (self.grid, self.block))
        return f"kernel {self.kernel}{computed} (grid {grid}, blocks of {block})"


@dataclass(frozen=True)
class Copy:
    """Some bytes to another place."""

    source: BufferOffset
    target: BufferOffset
    size: int


Step = Launch | Copy


@dataclass(frozen=True)
class KernelLaunch:
    """A launch that is part of a function which the host calls.

    Attributes:
        arguments: positions of what the kernel is given among the function's arguments.
    """

    kernel: str
    grid: Sizes
    block: Sizes
    arguments: tuple[int, ...]
