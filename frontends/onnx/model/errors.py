"""Import errors that carry what a caller needs to try again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tcopt.support.errors import ImportModelError, InputError, UnsupportedError
from tcopt.support.structures import Kind

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

Dimension = int | str | None


class MissingShapesError(InputError):
    """Inputs whose dimensions the model leaves open and the caller did not fix.

    `inputs` maps each such input to its declared dimensions (a number, a symbol's name or
    None), or to None where even the number of dimensions is open. `lists` says which are no
    tensors, and what they are.
    """

    def __init__(
        self,
        inputs: Mapping[str, Sequence[Dimension] | None],
        lists: Mapping[str, Kind] | None = None,
    ):
        self.inputs = dict(inputs)
        self.lists = dict(lists or {})
        listed = ", ".join(
            f'"{name}" {self.lists.get(name) or _dims_text(dims)}' for name, dims in inputs.items()
        )
        tensors = {name: dims for name, dims in inputs.items() if name not in self.lists}
        ways = [_fixing_advice(tensors)] if tensors else []
        ways += [_list_advice(name, kind) for name, kind in list(self.lists.items())[:1]]
        super().__init__(
            f"the shapes of these inputs are not fixed: {listed}", hint="; ".join(ways)
        )


def _list_advice(name: str, kind: Kind) -> str:
    """How to fix the shapes of what is not a tensor."""
    shape = "[[1, 3], [2, 3]]" if kind.is_sequence else "[1, 3]"
    otherwise = ", None without an element" if kind.is_optional else ""
    return f'give those of a {kind} as shapes={{"{name}": {shape}}}{otherwise}'


def _fixing_advice(inputs: Mapping[str, Sequence[Dimension] | None]) -> str:
    """How to fix open dimensions: those with names by them, others by shapes."""
    unnamed = [name for name, dims in inputs.items() if dims is None or None in dims]
    open_ = (d for dims in inputs.values() for d in dims or () if isinstance(d, str))
    # A sum of others follows from them.
    symbols = [d for d in dict.fromkeys(open_) if "+" not in d]
    ways: list[str] = []
    if symbols:
        given = ", ".join(f'"{name}": 1' for name in symbols)
        options = " ".join(f"--dim {shlex.quote(f'{name}=1')}" for name in symbols)
        ways.append(f"fix {', '.join(symbols)}, as in dims={{{given}}} or {options}")
    if unnamed or not ways:
        name = (unnamed or list(inputs))[0]
        dims = inputs[name]
        shape = "1x3x224x224" if dims is None else "x".join(str(_example(d)) for d in dims)
        ways.append(f'fix them, as in shapes={{"{name}": [...]}} or --shape {name}:{shape}')
    return "; ".join(ways)


def _example(dim: Dimension) -> int:
    return dim if isinstance(dim, int) else 1


def _dims_text(dims: Sequence[Dimension] | None) -> str:
    if dims is None:
        return "of unknown rank"
    return "[" + ", ".join("?" if d is None else str(d) for d in dims) + "]"


class ExpansionError(ImportModelError):
    """A model's functions and bodies expand to more than it may ask for, wherever they are."""


class MissingValuesError(UnsupportedError):
    """A value which decides shapes or attributes is only known when the model runs.

    `inputs` names the model's inputs it is computed from: giving their values (argument
    `values`) specialises the model on them. `value` is the value itself and `name` its name as an
    input of a next stage, if a stage of the model can compute it for the next one.
    """

    def __init__(
        self,
        message: str,
        inputs: Sequence[str],
        *,
        where: str | None = None,
        value: SSAValue | None = None,
        name: str | None = None,
    ):
        self.inputs = tuple(inputs)
        self.value = value
        self.name = name
        names = ", ".join(f'"{name}"' for name in inputs)
        hint = (
            f"it depends on input {names}: give the value, as in "
            f'values={{"{self.inputs[0]}": array}}, to specialise the model on it'
            if inputs
            else "make it a constant of the model"
        )
        super().__init__(message, where=where, hint=hint)


class MeasuredError(MissingValuesError):
    """As above, of a value that is computed for the next stage alone: no other node has it."""
