"""Calibration data: sample inputs of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.specs import Dimension, TensorSpec
from tcopt.support.errors import InputError

Array = NDArray[Any]
Feeds = Mapping[str, Array]
Data = Feeds | Sequence[Feeds]


def samples_of(data: Data, inputs: Sequence[TensorSpec], batch: int | None = None) -> list[Feeds]:
    """Split calibration data into runs of the model.

    Data is a mapping from input names to arrays, or a list of mappings. An array has the shape of
    its input, for a single run; or an additional leading axis over runs; or a multiple of the
    input's first extent, which is split into runs.

    Args:
        inputs: inputs of the model.
        batch: batch size of a run if the model leaves the first extent of an input open; by default
            the whole array is one run.
    Raises:
        InputError: the data has a wrong form, names other inputs, is empty or is not finite.
    """
    found: list[Feeds] = []
    for given in _listed_data(data):
        found += _runs(given, inputs, batch)
    if not found:
        raise InputError("there is no calibration data")
    return found


def _listed_data(data: Any) -> list[Any]:
    """Return one or several mappings of arrays as a list."""
    if isinstance(data, Mapping):
        return [data]
    if not isinstance(data, list | tuple):
        raise _of_another_form(data)
    return [*data]


def _of_another_form(given: Any) -> InputError:
    return InputError(
        f"calibration data is a mapping from input names to arrays, or a list of these, "
        f"not {type(given).__name__}",
        hint="give {'name': array}",
    )


def _runs(data: Any, inputs: Sequence[TensorSpec], batch: int | None) -> list[Feeds]:
    if not isinstance(data, Mapping):
        raise _of_another_form(data)
    given = cast("Feeds", data)
    names = [spec.name for spec in inputs]
    missing = [name for name in names if name not in given]
    if missing:
        raise InputError(
            f"the calibration data lacks {_listed(missing)}",
            hint=f"the model's inputs are {_listed(names)}",
        )
    more = [name for name in given if name not in names]
    if more:
        raise InputError(
            f"the calibration data has {_listed(more)}, which the model does not have as inputs",
            hint=f"the model's inputs are {_listed(names)}",
        )
    parts = {spec.name: _parts(spec, np.asarray(given[spec.name]), batch) for spec in inputs}
    counts = {name: len(rows) for name, rows in parts.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{count} for '{name}'" for name, count in counts.items())
        raise InputError(f"the calibration data has different numbers of runs: {told}")
    runs = next(iter(counts.values()), 0)
    return [{name: rows[place] for name, rows in parts.items()} for place in range(runs)]


def _parts(spec: TensorSpec, array: Array, batch: int | None) -> list[Array]:
    """Split the array of one input into runs."""
    where = f"the calibration data of '{spec.name}'"
    if array.dtype != spec.dtype:
        raise InputError(
            f"{where} is {array.dtype}, but the model expects {np.dtype(spec.dtype)}",
            hint=f"convert it, array.astype('{np.dtype(spec.dtype)}')",
        )
    if not array.size:
        raise InputError(f"{where} is empty: {list(array.shape)}")
    if array.dtype.kind == "f":
        _check_finite(array, where)
    if spec.any_rank:
        return [array]
    shape = tuple(spec.shape)
    if array.ndim == len(shape) + 1 and _fits(array.shape[1:], shape):
        return list(array)
    if array.ndim == len(shape) and array.ndim and _fits(array.shape[1:], shape[1:]):
        rows = shape[0] if isinstance(shape[0], int) else batch or array.shape[0]
        if rows and array.shape[0] % rows == 0:
            return [array[at : at + rows] for at in range(0, array.shape[0], rows)]
    if array.ndim == len(shape) and _fits(array.shape, shape):
        return [array]
    raise InputError(
        f"{where} has shape {list(array.shape)}, but the model expects {_shape_text(shape)}",
        hint="give that shape, a multiple of its first extent, or an additional leading axis",
    )


def _check_finite(array: Array, where: str) -> None:
    finite = np.isfinite(array)
    if finite.all():
        return
    place = [int(n) for n in np.unravel_index(int(np.argmin(finite)), array.shape)]
    what = "NaN" if np.isnan(array[tuple(place)]) else "infinity"
    raise InputError(
        f"{where} has {int((~finite).sum())} elements that are not finite; the first is {what} at "
        f"{place}"
    )


def _fits(shape: Sequence[int], wanted: Sequence[Dimension]) -> bool:
    pairs = zip(shape, wanted, strict=False)
    return len(shape) == len(wanted) and all(w == n or not isinstance(w, int) for n, w in pairs)


def _shape_text(shape: Sequence[Dimension]) -> str:
    return f"[{', '.join('?' if n is None else str(n) for n in shape)}]"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
