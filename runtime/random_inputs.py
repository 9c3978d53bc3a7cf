"""Values for a model's inputs: given ones, and random ones for the rest."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.model import Model
from tcopt.runtime.specs import TensorSpec
from tcopt.support.data.strings import dtype_text, is_text
from tcopt.support.data.structures import Kind
from tcopt.support.errors import InputError

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


def input_values(model: Model, given: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """Return a value for every input of a model; see `make_inputs`."""
    return make_inputs(input_specs(model.inputs), dict(given), seed=seed)


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
