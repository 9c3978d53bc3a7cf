"""What a target says about the time of convolutions, direct and through transformed tiles."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Protocol

from tcopt.support.winograd_tables import Matrix


@dataclass(frozen=True)
class Layer:
    """A convolution of stride 1, of each phase of its result.

    Attributes:
        height, width: outputs of a phase.
        inputs, outputs: channels; each phase of a stride is an input of its own.
        resident: bytes of all weights of the program, which share the caches.
        taps: of a phase, in each dimension.
        phases: of the result, in each dimension.
        inner: channels in a block of inputs; a vector unless given.
        element_bytes: size of a weight.
        terms: products that one instruction adds to a sum.
        whole: whether it is one of integers.
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
        """Outputs of a channel and phase, all images together."""
        return self.images * self.height * self.width

    @property
    def places(self) -> int:
        """Products of the direct form for an output of each phase and a pair of channels."""
        return (self.phases * self.taps) ** 2

    def tiles(self, tile: int) -> int:
        """How many tiles of an output extent there are, all images together."""
        return self.images * ceil(self.height / tile) * ceil(self.width / tile)


class ConvolutionCosts(Protocol):
    """Estimated times of convolutions; only their ratios matter."""

    def direct(self, layer: Layer) -> float:
        """The time of sums of products, in cycles."""
        ...

    def winograd(self, layer: Layer, tile: int) -> float:
        """The time of F(tile x tile, r x r) with its transforms, in cycles."""
        ...

    def has_room(self, layer: Layer, tile: int) -> bool:
        """Whether tiles fit into registers, so that they cost what is estimated."""
        ...


def operations(matrix: Matrix) -> int:
    """Instructions for the product of a matrix and a vector: the first term of a row is free.

    Integers take shifts beside sums, but CPUs do three of these a cycle where they multiply and add
    two vectors of floats.
    """
    return sum(max(sum(entry != 0 for entry in row) - 1, 0) for row in matrix)
