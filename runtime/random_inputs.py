"""Values for a model's inputs: given ones, and random ones for the rest."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.model import Model
from tcopt.runtime.program_sizes import solved_sizes
from tcopt.runtime.specs import TensorSpec
from tcopt.support.arithmetic.sizes import Size, evaluate, symbols_of
from tcopt.support.data.shape_text import shape_text
from tcopt.support.data.strings import is_text
from tcopt.support.data.structures import Kind
from tcopt.support.errors import InputError

Array = NDArray[Any]

_WORDS = ["", "0", "1", "2", "10"]
"""Values of random strings; most are numerals, as some operators parse strings as numbers."""


def input_values(model: Model, given: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """Return a value for every input of a model; see `make_inputs`."""
    return make_inputs(model.inputs, given, seed=seed)


def make_inputs(
    specs: Sequence[TensorSpec], given: Mapping[str, Array], *, seed: int
) -> dict[str, Array]:
    """Return a value for every input: given ones, checked, and random ones for the rest.

    Raises:
        InputError: a given name is not an input, or its shape or type does not match; or an input
            is a sequence or an optional, which array files cannot represent.
    """
    for spec in specs:
        if spec.kind is not Kind.TENSOR:
            raise InputError(
                f"input {spec} cannot be given on the command line",
                hint="run the model from Python, as in docs/sequences.md",
            )
    names = [spec.name for spec in specs]
    for name in given:
        if name not in names:
            raise InputError(f"there is no input '{name}'", hint=f"inputs are {', '.join(names)}")
    rng = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    sizes = _sizes(specs, given, rng)
    named = {
        name: size
        for spec in specs
        if spec.name in given
        for name, size in zip(spec.shape, given[spec.name].shape, strict=False)
    }
    for spec in specs:
        if spec.name in given:
            values[spec.name] = _fit(spec, given[spec.name])
        else:
            dims = tuple(
                evaluate(d, sizes)
                if isinstance(d, Size)
                else named.get(d, d)
                if isinstance(d, str)
                else d
                for d in spec.shape
            )
            values[spec.name] = random_value(spec._replace(shape=dims), rng)
    return values


def _sizes(
    specs: Sequence[TensorSpec], given: Mapping[str, Array], rng: np.random.Generator
) -> dict[str, int]:
    """Return the sizes that the shapes of given values determine, and random ones for the rest."""
    known = [spec for spec in specs if spec.name in given]
    for spec in known:
        _fit(spec, given[spec.name])
    sizes = solved_sizes((), known, tuple(given[spec.name].shape for spec in known))
    extents = (extent for spec in specs for extent in spec.shape if isinstance(extent, Size))
    for symbol in sorted({s for e in extents for s in symbols_of(e)}, key=lambda s: s.name):
        if symbol.name not in sizes:
            low, high = symbol.range
            sizes[symbol.name] = symbol.multiple * int(rng.integers(low, high + 1))
    return sizes


def _fit(spec: TensorSpec, value: Array) -> Array:
    fits = spec.any_rank or (
        len(value.shape) == len(spec.shape)
        and all(
            size == wanted or not isinstance(wanted, int)
            for size, wanted in zip(value.shape, spec.shape, strict=True)
        )
    )
    if not fits:
        shape = shape_text(value.shape) or "scalar"
        raise InputError(f"input '{spec.name}' is {shape}, the model wants {spec}")
    if is_text(spec.dtype) and value.dtype.kind in "UT":
        return value.astype(spec.dtype)
    if value.dtype != spec.dtype:
        raise InputError(f"input '{spec.name}' is {value.dtype}, the model wants {spec}")
    return value


def random_value(spec: TensorSpec, rng: np.random.Generator) -> Array:
    """Return standard normal floats, uniform booleans, integers 0 and 1, or numerals as strings.

    Integers are that small because they may be indices into a dimension of unknown size.

    Raises:
        InputError: the shape is open.
    """
    shape = [size for size in spec.shape if isinstance(size, int)]
    if spec.any_rank or len(shape) != len(spec.shape):
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


def _shape_option(spec: TensorSpec) -> str:
    """Return the option that fixes the open dimensions of an input."""
    if spec.any_rank or None in spec.shape:
        return f"a shape with --shape {spec.name}:1x2x3"
    names = dict.fromkeys(size for size in spec.shape if isinstance(size, str))
    return "fix it with " + " ".join("--dim " + shlex.quote(f"{name}=8") for name in names)
