"""Import errors with the facts that a caller needs to retry."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tcopt.support.arithmetic.intervals import Range
from tcopt.support.arithmetic.size_parser import names_in
from tcopt.support.arithmetic.sizes import Extent, Size
from tcopt.support.data.structures import Kind
from tcopt.support.errors import ImportModelError, InputError, UnsupportedError

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

Dimension = Extent | str | None


class MissingShapesError(InputError):
    """Inputs have open dimensions that the caller has not fixed.

    `inputs` has the declared dimensions of these inputs (a number, a symbol or None), or None if
    the rank is open. `lists` has the kinds of inputs that are not tensors.
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
    """Return a hint on how to fix the shapes of a sequence or optional."""
    shape = "[[1, 3], [2, 3]]" if kind.is_sequence else "[1, 3]"
    otherwise = ", None without an element" if kind.is_optional else ""
    return f'give the shapes of a {kind} as shapes={{"{name}": {shape}}}{otherwise}'


def _fixing_advice(inputs: Mapping[str, Sequence[Dimension] | None]) -> str:
    """Return a hint on how to fix open dimensions: by name if possible, otherwise by shapes."""
    unnamed = [name for name, dims in inputs.items() if dims is None or None in dims]
    open_ = (d for dims in inputs.values() for d in dims or () if isinstance(d, str))
    # Sizes such as `past + 1` follow from their names.
    symbols = list(dict.fromkeys(name for d in open_ for name in names_in(d)))
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


def _example(dim: Dimension) -> Extent:
    return dim if isinstance(dim, int | Size) else 1


def _dims_text(dims: Sequence[Dimension] | None) -> str:
    if dims is None:
        return "of unknown rank"
    return "[" + ", ".join("?" if d is None else str(d) for d in dims) + "]"


class OpenSizeError(UnsupportedError):
    """A node needs the value of a size, of which only the range is known.

    `names` has the sizes that the node depends on.
    """

    def __init__(self, message: str, names: Sequence[str], *, where: str | None = None):
        self.names = tuple(names)
        given = ", ".join(f'"{name}"' for name in names)
        super().__init__(
            f"{message}: this needs the value of {given}, which has a range",
            where=where,
            hint=size_advice(names),
        )


def size_advice(names: Sequence[str]) -> str:
    """Return a hint for a model that has no program for ranges of sizes."""
    ranges = " ".join(f"--dim {shlex.quote(f'{name}=1..512?')}" for name in names)
    return f"compile for each value when it is known, as in {ranges}, or give a number"


class MissingRoomsError(UnsupportedError):
    """Sizes are values of inputs or computed values, and nothing bounds them.

    `ranges` has a range for each size with room above its value for the samples of an import.
    """

    def __init__(self, ranges: Mapping[str, Range], where: str | None = None):
        self.ranges = dict(ranges)
        listed = ", ".join(f'"{name}"' for name in ranges)
        super().__init__(
            f"these sizes are known when the model runs, and have no bounds: {listed}",
            where=where,
            hint="give ranges for the dimensions of outputs that have them, as in "
            'dims={"rows": (1, 512)}',
        )


class ExpansionError(ImportModelError):
    """A model's functions and subgraphs expand to more nodes than the limit."""


class MissingValuesError(UnsupportedError):
    """A value that determines shapes or attributes is only known at run time.

    `inputs` has the names of the model inputs that it depends on. Giving their values (argument
    `values`) specialises the model. If a stage can compute the value for the next one, it is
    `value`, and `name` is its name as an input of that stage.
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
    """A value must be computed for the next stage only; no node has it as a result."""
