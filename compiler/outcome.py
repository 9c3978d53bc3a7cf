"""Results of a compile: a program, perhaps of a model's first stage, or a model with open sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from tcopt.frontends.onnx.model.stage import Rest
from tcopt.runtime.specs import TensorSpec
from tcopt.runtime.whole_program import WholeProgram
from tcopt.support.arithmetic.intervals import Range
from tcopt.support.errors import TcoptError


@dataclass(frozen=True)
class Compiled:
    """A compiled program.

    Attributes:
        files: files that were read in addition to the model's own.
        rest: the part of the model that is compiled once this program has run; None if none.
        outputs: outputs of this program and the rest together; empty without a rest.
        warnings: placement warnings of the compile, as text.
    """

    program: WholeProgram
    files: Sequence[Path] = ()
    rest: Rest | None = None
    outputs: Sequence[TensorSpec] = ()
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class OpenModel:
    """A model that is compiled at run time, when its sizes are known.

    Attributes:
        inputs, outputs: its declarations; empty for a later stage.
        missing: the error for callers that need known sizes.
        deciding: names of the inputs whose values determine sizes; empty if only shapes are
            missing.
        rooms: sizes that nothing bounds, with ranges for the samples of the options.
    """

    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]
    missing: TcoptError
    deciding: Sequence[str] = ()
    rooms: Mapping[str, Range] = field(default_factory=dict[str, Range])


Outcome: TypeAlias = Compiled | OpenModel
