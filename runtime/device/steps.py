"""Steps of a run on a device: kernel launches and copies, on offsets in buffers.

The list of steps is complete when a model is compiled; a run only enqueues them.
"""

from __future__ import annotations

from dataclasses import dataclass

Sizes = tuple[int, int, int]


@dataclass(frozen=True)
class BufferOffset:
    """Location in a buffer.

    Attributes:
        buffer: index of the buffer among the arguments of @main.
        offset: offset in bytes.
    """

    buffer: int
    offset: int = 0


@dataclass(frozen=True)
class Launch:
    """Launch of a kernel on a grid of thread blocks.

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
        """Text that describes the launch in messages."""
        computed = f" of {self.nodes}" if self.nodes else ""
        grid, block = (" x ".join(map(str, sizes)) for sizes in (self.grid, self.block))
        return f"kernel {self.kernel}{computed} (grid {grid}, blocks of {block})"


@dataclass(frozen=True)
class Copy:
    """Copy of `size` bytes between two locations."""

    source: BufferOffset
    target: BufferOffset
    size: int


Step = Launch | Copy


@dataclass(frozen=True)
class KernelLaunch:
    """Launch within a function that the host calls.

    Attributes:
        arguments: for each kernel argument its position among the function's arguments.
    """

    kernel: str
    grid: Sizes
    block: Sizes
    arguments: tuple[int, ...]
