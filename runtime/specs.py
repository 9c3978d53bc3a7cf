"""What a compiled model says of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tcopt.support.errors import InputError

Array = NDArray[Any]


class TensorSpec(NamedTuple):
    """An input or output: its ONNX name, shape and numpy type.

    A dimension that the model leaves open is None or its symbol's name.
    """

    name: str
    shape: tuple[int | str | None, ...]
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        shape = "x".join("?" if d is None else str(d) for d in self.shape)
        return f'"{self.name}" {self.dtype}[{shape}]'


def select_feeds(specs: Sequence[TensorSpec], feeds: Mapping[str, Any]) -> list[Array]:
    """The arrays of `feeds` in the order of `specs`, contiguous and of the right type.

    Raises:
        InputError: an input is missing or unknown, or its shape or type is wrong.
    """
    arrays = [feeds.get(spec.name) for spec in specs]
    if len(feeds) == len(specs) and all(map(_is_ready, specs, arrays)):
        return cast("list[Array]", arrays)
    known = {spec.name for spec in specs}
    listed = ", ".join(str(spec) for spec in specs) or "none"
    for name in feeds:
        if name not in known:
            raise InputError(f'the model has no input "{name}"', hint=f"its inputs are {listed}")
    return [_checked(spec, feeds, listed) for spec in specs]


def _is_ready(spec: TensorSpec, array: Any) -> bool:
    """Whether an array can be used as it is; that of an input with open dimensions is not."""
    return (
        type(array) is np.ndarray
        and array.shape == spec.shape
        and array.dtype == spec.dtype
        and array.flags.c_contiguous
    )


def _checked(spec: TensorSpec, feeds: Mapping[str, Any], listed: str) -> Array:
    if spec.name not in feeds:
        raise InputError(f'no value given for input "{spec.name}"', hint=f"inputs are {listed}")
    array = np.asarray(feeds[spec.name])
    if array.dtype != spec.dtype:
        raise InputError(
            f'input "{spec.name}" has type {array.dtype}, the model wants {spec.dtype}',
            hint=f"convert it with .astype(numpy.{spec.dtype})",
        )
    fits = len(array.shape) == len(spec.shape) and all(
        not isinstance(want, int) or want == have
        for want, have in zip(spec.shape, array.shape, strict=True)
    )
    if not fits:
        raise InputError(f"got shape {list(array.shape)} for input {spec}")
    return array if array.flags.c_contiguous else np.array(array, order="C")
