"""Description of the part of a model that a stage imports, see `nodes.stages`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class PassedTensor(NamedTuple):
    """A tensor computed by an earlier stage; its extents are known after that stage has run."""

    name: str
    dtype: np.dtype[Any]
    rank: int


@dataclass(frozen=True)
class ImportStage:
    """The part of a model that remains to be imported.

    Attributes:
        nodes: positions of its nodes.
        outputs: names of the model outputs that it must compute.
        inputs: results of earlier stages, in addition to the model's inputs.
        known: results of earlier stages whose values are known at compile time.
        lists: sequences and optionals of earlier stages, as the names of their tensors in `inputs`
            and `known`; None for an absent optional.
        measured: names among `inputs` and `known` of integers that are needed to import nodes of
            this stage, but are not results of nodes.
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
        bounded: results in buffers of their maximum shape, each with the output that has the
            extents of the valid part, which starts at index 0.
        stage: the part to import next; None if nothing is left.
    """

    bounded: Mapping[str, str]
    stage: ImportStage | None
