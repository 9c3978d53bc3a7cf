"""Values for a model's inputs: read from files as `name=@x.npy`, or random from a seed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.data.strings import dtype_text, is_text
from tcopt.support.data.structures import Kind
from tcopt.support.errors import InputError, ResourceError
from tcopt.support.files.access import open_file

if TYPE_CHECKING:
    from tcopt.runtime.signature import Feed
    from tcopt.runtime.specs import TensorSpec

Array = NDArray[Any]


_WORDS = ["", "0", "1", "2", "10"]
"""Values of random strings; most are numerals, as some operators parse strings as numbers."""


@dataclass(frozen=True)
class InputSpec:
    """Shape and type of an input. An open dimension is None or a symbol's name; if the shape is
    None, the rank is open, too.
    """

    name: str
    shape: tuple[int | str | None, ...] | None
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"{self.name}: {show_shape(self.shape)} {dtype_text(self.dtype)}"


def input_specs(inputs: Iterable[TensorSpec]) -> list[InputSpec]:
    """Return the specifications of a compiled model's inputs.

    Raises:
        InputError: one is a sequence or an optional, which array files cannot represent.
    """
    found: list[InputSpec] = []
    for spec in inputs:
        if spec.kind is not Kind.TENSOR:
            raise InputError(
                f"input {spec} cannot be given on the command line",
                hint="run the model from Python, as in docs/sequences.md",
            )
        shape = None if spec.any_rank else tuple(spec.shape)
        found.append(InputSpec(spec.name, shape, np.dtype(spec.dtype)))
    return found


def output_arrays(names: Iterable[str], results: Iterable[Feed]) -> dict[str, Array]:
    """Return the arrays of all outputs by name; those of a sequence `y` are `y[0]`, `y[1]` and so
    on.
    """
    from tcopt.runtime.signature import flat_arrays

    pairs = zip(names, results, strict=True)
    return dict(pair for name, value in pairs for pair in flat_arrays(name, value))


def show_shape(shape: Sequence[int | str | None] | None) -> str:
    """Format a shape as `1x3x224x224`, with `?` for open sizes, or `[batch, 3, 9]` with names."""
    if shape is None:
        return "any shape of"
    sizes = ["?" if size is None else str(size) for size in shape]
    if any(isinstance(size, str) for size in shape):
        return f"[{', '.join(sizes)}]"
    return "x".join(sizes) or "scalar"


def random_value(spec: InputSpec, rng: np.random.Generator) -> Array:
    """Return standard normal floats, uniform booleans, integers 0 and 1, or numerals as strings.

    Integers are that small because they may be indices into a dimension of unknown size.

    Raises:
        InputError: the shape is open.
    """
    shape = [size for size in spec.shape or () if isinstance(size, int)]
    if spec.shape is None or len(shape) != len(spec.shape):
        raise InputError(
            f"the shape of input {spec} is open",
            hint=f"give it a value with --input, or {_shape_option(spec)}",
        )
    if is_text(spec.dtype):
        words = rng.choice(_WORDS, shape)
        return np.asarray(words).astype(spec.dtype)
    if spec.dtype.kind in "iub":
        return rng.integers(0, 2, shape).astype(spec.dtype)
    return rng.standard_normal(shape).astype(spec.dtype)


def _shape_option(spec: InputSpec) -> str:
    """Return the option that fixes the open dimensions of an input."""
    if spec.shape is None or None in spec.shape:
        return f"a shape with --shape {spec.name}:1x2x3"
    names = dict.fromkeys(size for size in spec.shape if isinstance(size, str))
    return "fix it with " + " ".join("--dim " + shlex.quote(f"{name}=8") for name in names)


def read_arrays(texts: Sequence[str]) -> dict[str, Array]:
    """Parse `name=@file.npy` arguments; a `.npz` file without a name provides all its arrays.

    Raises:
        InputError: an argument does not have this form or its file cannot be read.
    """
    found: dict[str, Array] = {}
    for text in texts:
        name, separator, path = text.partition("=@")
        if separator and name:
            loaded = _load(path)
            if not isinstance(loaded, np.ndarray):
                raise InputError(f"'{path}' holds several arrays", hint=f"write '@{path}' alone")
            found[name] = loaded
        elif text.startswith("@"):
            loaded = _load(text[1:])
            if isinstance(loaded, np.ndarray):
                raise InputError(f"'{text}' needs a name", hint=f"write 'name={text}'")
            found.update(loaded)
        else:
            raise InputError(f"'{text}' is not 'name=@file.npy'")
    return found


def make_inputs(
    specs: Sequence[InputSpec], given: dict[str, Array], *, seed: int
) -> dict[str, Array]:
    """Return a value for every input: given ones, checked, and random ones for the rest.

    Raises:
        InputError: a given name is not an input, or its shape or type does not match.
    """
    names = [spec.name for spec in specs]
    for name in given:
        if name not in names:
            raise InputError(f"there is no input '{name}'", hint=f"inputs are {', '.join(names)}")
    rng = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    symbols = {
        name: size
        for spec in specs
        if spec.name in given
        for name, size in zip(spec.shape or (), given[spec.name].shape, strict=False)
    }
    for spec in specs:
        if spec.name in given:
            values[spec.name] = _fit(spec, given[spec.name])
        else:
            dims = spec.shape and tuple(
                symbols.get(d, d) if isinstance(d, str) else d for d in spec.shape
            )
            values[spec.name] = random_value(replace(spec, shape=dims), rng)
    return values


def _fit(spec: InputSpec, value: Array) -> Array:
    fits = spec.shape is None or (
        len(value.shape) == len(spec.shape)
        and all(
            size == wanted or not isinstance(wanted, int)
            for size, wanted in zip(value.shape, spec.shape, strict=True)
        )
    )
    if not fits:
        shape = show_shape(value.shape)
        raise InputError(f"input '{spec.name}' is {shape}, the model wants {spec}")
    if is_text(spec.dtype) and value.dtype.kind in "UT":
        return value.astype(spec.dtype)
    if value.dtype != spec.dtype:
        raise InputError(f"input '{spec.name}' is {value.dtype}, the model wants {spec}")
    return value


def _load(path: str) -> Array | dict[str, Array]:
    if not Path(path).is_file():
        raise InputError(f"there is no file '{path}'")
    try:
        with open_file(path) as file:
            loaded = np.load(file, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else {k: loaded[k] for k in loaded}
    except MemoryError as error:
        raise ResourceError(f"the arrays of '{path}' need more memory than there is") from error
    # Malformed headers and archives make numpy raise errors of many classes.
    except Exception as error:
        raise InputError(f"'{path}' is not a numpy file: {error}") from None
