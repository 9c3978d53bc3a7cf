"""Cost model of direct and Winograd convolutions on a target."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Protocol

from tcopt.support.arithmetic.winograd_tables import Matrix


@dataclass(frozen=True)
class ConvLayer:
    """Cost-relevant parameters of a convolution of stride 1.

    A strided convolution is reduced to one by splitting its input into phases, a transposed one
    by splitting its result into phases.

    Attributes:
        height, width: outputs of a phase.
        inputs: input channels times the number of input phases. outputs: output channels.
        resident: bytes of all weights of the program, which compete for the caches.
        taps: kernel size of a phase, in each dimension.
        phases: number of phases of the result, in each dimension.
        inner: channels in a block of inputs; by default the lanes of a vector.
        element_bytes: size of a weight.
        terms: products that one instruction accumulates per element.
        whole: whether it is an integer convolution.
    """

    images: int
    height: int
    width: int
    inputs: int
    outputs: int
    resident: int
    taps: int = 3
    phases: int = 1
    inner: int | None = None
    element_bytes: int = 4
    terms: int = 1
    whole: bool = False

    @property
    def pixels(self) -> int:
        """Outputs per channel and phase, over all images."""
        return self.images * self.height * self.width

    @property
    def places(self) -> int:
        """Multiplications of the direct form per pair of channels, for one pixel of every phase."""
        return (self.phases * self.taps) ** 2

    def tiles(self, tile: int) -> int:
        """Return the number of tiles per output channel, over all images."""
        return self.images * ceil(self.height / tile) * ceil(self.width / tile)


class ConvolutionCosts(Protocol):
    """Estimated times of convolutions; only their ratios matter."""

    def direct(self, layer: ConvLayer) -> float:
        """Return the time of the direct form, in cycles."""
        ...

    def winograd(self, layer: ConvLayer, tile: int) -> float:
        """Return the time of F(tile x tile, r x r) including its transforms, in cycles."""
        ...

    def has_room(self, layer: ConvLayer, tile: int) -> bool:
        """Whether tiles fit into registers, so that the estimate is valid."""
        ...


def operations(matrix: Matrix) -> int:
    """Count the instructions of a matrix-vector product; the first term of a row is free.

    Integer transforms also need shifts, but CPUs issue three integer operations per cycle and only
    two vector multiply-adds on floats.
    """
    return sum(max(sum(entry != 0 for entry in row) - 1, 0) for row in matrix)
