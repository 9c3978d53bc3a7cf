"""Results of an import: all of a model, its first stage, or its declarations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp

from tcopt.frontends.onnx.model.errors import (
    MissingRoomsError,
    MissingShapesError,
    MissingValuesError,
)
from tcopt.frontends.onnx.model.stage import Rest
from tcopt.support.data.structures import Count


@dataclass(frozen=True)
class Fixed:
    """A model with known sizes.

    Attributes:
        model: the decoded model, in which inputs with a given shape or value have no default.
        files: files that are read in addition to the model's own.
        module: the graph-level module.
        input_counts, output_counts: number of tensors of each input and output that is a sequence
            or optional, by name.
    """

    model: ModelProto
    files: Collection[Path]
    module: ModuleOp
    input_counts: Mapping[str, Count]
    output_counts: Mapping[str, Count]


@dataclass(frozen=True)
class Staged(Fixed):
    """The first stage of a model in which later sizes depend on data.

    The outputs of the module include the inputs of the next stage.

    Attributes:
        rest: the part of the model after the stage.
    """

    rest: Rest


@dataclass(frozen=True)
class Open:
    """A model whose sizes depend on shapes or values of inputs that are not given.

    Attributes:
        model: see `Fixed`.
        missing: the error for callers that need known sizes.
    """

    model: ModelProto
    missing: MissingShapesError | MissingValuesError | MissingRoomsError


Imported: TypeAlias = Fixed | Staged | Open
