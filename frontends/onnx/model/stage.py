"""The part of a model that a stage imports, see `nodes.stages`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class PassedTensor(NamedTuple):
    """A tensor that an earlier stage computes; its extents are known when that has run."""

    name: str
    dtype: np.dtype[Any]
    rank: int


@dataclass(frozen=True)
class Stage:
    """The part of a model that is left to import.

    Attributes:
        nodes: the positions of its nodes.
        outputs: names of the model's outputs that it has to compute.
        inputs: results of earlier stages, in addition to the model's inputs.
        known: results of earlier stages whose values are known at compile time.
        lists: the sequences and optionals of earlier stages, by the names that their tensors have
            in `inputs` and `known`; None for an optional without an element.
        measured: those of `inputs` and `known` that no node of the model computes: integers that
            nodes of this stage need to know.
    """

    nodes: tuple[int, ...]
    outputs: tuple[str, ...]
    inputs: tuple[PassedTensor, ...] = ()
    known: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])
    lists: Mapping[str, tuple[str, ...] | None] = field(
        default_factory=dict[str, "tuple[str, ...] | None"]
    )
    measured: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rest:
    """The part of a model after a stage.

    Attributes:
        bounded: results in buffers of their largest shape, each with the output that holds the
            extents of the valid part, from the start of each dimension.
        stage: the part left to import; None if nothing is left.
    """

    bounded: Mapping[str, str]
    stage: Stage | None
