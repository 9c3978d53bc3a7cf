"""Options of an import: known facts about a model's inputs, and limits on its resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import NDArray

from tcopt.frontends.onnx.model.limits import DEFAULT_LIMITS, ModelLimits
from tcopt.frontends.onnx.model.stage import ImportStage
from tcopt.support.arithmetic.intervals import Range
from tcopt.support.arithmetic.size_ranges import GivenSize

if TYPE_CHECKING:
    from onnx import ModelProto

Source: TypeAlias = "str | Path | bytes | ModelProto"
"""A model: the path of a file, its bytes, or a decoded message."""

Shapes = Mapping[str, Any]
"""Shapes by input name: for a sequence a list of shapes, for an absent optional None."""

Dims = Mapping[str, GivenSize]
"""Sizes of open dimensions by name: a number, or a range such as `"1..512"` or `(1, 512)`."""

Values = Mapping[str, NDArray[Any]]

Rooms = Mapping[str, "Range | None"]
"""Inclusive ranges of sizes by name; None for a size that has to be a number."""

CODE = {"changes_code": True}
"""Metadata of an option that programs depend on, so that it is part of cache keys."""

NO_CODE = {"changes_code": False}
"""Metadata of an option that has no effect on programs."""


@dataclass(frozen=True)
class ImportOptions:
    """Options of an import.

    Attributes:
        shapes: shapes of inputs with open dimensions. An input with a default value is only an
            input if its shape or value is given.
        values: values of inputs to specialise on, if they determine shapes.
        dims: extents or ranges of open dimensions by their names in the model.
        limits: limits on the resources of a model.
        follow_links: whether symbolic links of external data may point outside its folder.
        defines: whether sizes that depend on data are sizes of the program (`size.define`), and
            loops that data ends are its loops, where possible; otherwise a later stage is imported
            once they are known.
        rooms: ranges of the sizes that are values of inputs or computed values, by name; None for
            a size that has to be a number. Without `rooms`, all have to be numbers.
        samples: values of inputs in a run, from which `MissingRoomsError` computes such sizes.
        stage: the part of the model to import; None for the whole model.
    """

    shapes: Shapes = field(default_factory=dict[str, Any], metadata=CODE)
    values: Values = field(default_factory=dict[str, NDArray[Any]], metadata=CODE)
    dims: Dims = field(default_factory=dict[str, GivenSize], metadata=CODE)
    limits: ModelLimits = field(default=DEFAULT_LIMITS, metadata=CODE)
    follow_links: bool = field(default=False, metadata=CODE)
    defines: bool = field(default=True, metadata=CODE)
    rooms: Rooms | None = field(default=None, metadata=CODE)
    samples: Values = field(default_factory=dict[str, NDArray[Any]], metadata=NO_CODE)
    stage: ImportStage | None = field(default=None, metadata=CODE)

    @property
    def computes_sizes(self) -> bool:
        """Whether programs of the target may compute sizes, and have loops that data ends."""
        return True


NO_OPTIONS = ImportOptions()
"""Options without any known fact."""
