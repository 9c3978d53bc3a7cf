"""Steps of a run on a device: kernel launches and copies, on offsets in buffers.

The list of steps is complete when a model is compiled; a run only enqueues them. In a program for a
range of sizes, grids, offsets and the numbers of bytes are formulas over its sizes, which
`fixed_steps` evaluates for a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.arithmetic.sizes import Extent, evaluate

Sizes = tuple[int, int, int]
Grid = tuple[Extent, Extent, Extent]


@dataclass(frozen=True)
class BufferOffset:
    """Location in a buffer.

    Attributes:
        buffer: index of the buffer among the arguments of @main that are buffers.
        offset: offset in bytes.
    """

    buffer: int
    offset: Extent = 0


@dataclass(frozen=True)
class Launch:
    """Launch of a kernel on a grid of thread blocks.

    Attributes:
        sizes: the kernel's index arguments, after its buffers.
        nodes: the ONNX nodes that it computes, for messages.
    """

    kernel: str
    grid: Grid
    block: Sizes
    arguments: tuple[BufferOffset, ...]
    nodes: str = ""
    sizes: tuple[Extent, ...] = ()

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
    size: Extent


Step = Launch | Copy


@dataclass(frozen=True)
class KernelLaunch:
    """Launch within a function that the host calls.

    Attributes:
        grid: the number of blocks, over the function's sizes.
        arguments: for each buffer of the kernel its position among the function's arguments.
        sizes: the kernel's index arguments, over the function's sizes.
        symbols: the function's sizes, which are its last arguments.
    """

    kernel: str
    grid: Grid
    block: Sizes
    arguments: tuple[int, ...]
    sizes: tuple[Extent, ...] = ()
    symbols: tuple[Symbol, ...] = ()


def fixed_steps(steps: Sequence[Step], values: Mapping[str, int]) -> list[Step]:
    """Return the steps of a run, with numbers for formulas.

    Args:
        values: the value of each size of the program.
    """
    return [_fixed(step, values) for step in steps]


def number(extent: Extent) -> int:
    """Return a number in the steps of a run."""
    assert isinstance(extent, int), f"{extent} is not evaluated"
    return extent


def is_empty(step: Step) -> bool:
    """Whether a step of a run does nothing: a launch of no blocks, or a copy of no bytes."""
    return 0 in step.grid if isinstance(step, Launch) else step.size == 0


def _fixed(step: Step, values: Mapping[str, int]) -> Step:
    def place(at: BufferOffset) -> BufferOffset:
        return BufferOffset(at.buffer, evaluate(at.offset, values))

    if isinstance(step, Copy):
        return Copy(place(step.source), place(step.target), evaluate(step.size, values))
    x, y, z = (evaluate(size, values) for size in step.grid)
    arguments = tuple(map(place, step.arguments))
    sizes = tuple(evaluate(size, values) for size in step.sizes)
    return replace(step, grid=(x, y, z), arguments=arguments, sizes=sizes)
