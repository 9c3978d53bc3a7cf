"""Import errors that carry what a caller needs to try again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcopt.support.errors import ImportModelError, UnsupportedError

Dimension = int | str | None


class MissingShapesError(ImportModelError):
    """Inputs whose dimensions the model leaves open and the caller did not fix.

    `inputs` maps each such input to its declared dimensions (a number, a symbol's name or
    None), or to None where even the number of dimensions is open.
    """

    def __init__(self, inputs: Mapping[str, Sequence[Dimension] | None]):
        self.inputs = dict(inputs)
        listed = ", ".join(f'"{name}" {_dims_text(dims)}' for name, dims in inputs.items())
        example = next(iter(inputs))
        super().__init__(
            f"the shapes of these inputs are not fixed: {listed}",
            hint=f'fix them, as in shapes={{"{example}": [...]}} or --shape {example}:1x3x224x224',
        )


def _dims_text(dims: Sequence[Dimension] | None) -> str:
    if dims is None:
        return "of unknown rank"
    return "[" + ", ".join("?" if d is None else str(d) for d in dims) + "]"


class MissingValuesError(UnsupportedError):
    """A value which decides shapes or attributes is only known when the model runs.

    `inputs` names the model's inputs it is computed from: giving their values (argument
    `values`) specialises the model on them.
    """

    def __init__(self, message: str, inputs: Sequence[str], *, where: str | None = None):
        self.inputs = tuple(inputs)
        names = ", ".join(f'"{name}"' for name in inputs)
        hint = (
            f"it depends on input {names}: give the value, as in "
            f'values={{"{self.inputs[0]}": array}}, to specialise the model on it'
            if inputs
            else "make it a constant of the model"
        )
        super().__init__(message, where=where, hint=hint)
