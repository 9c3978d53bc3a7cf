"""Specifications of the inputs and outputs of a compiled model, and checks of feeds."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.feeds import OpenDevice, Tensor, are_texts, tensor_of, texts_of
from tcopt.runtime.rooms import is_in_room
from tcopt.support.arithmetic.sizes import Size, upper_bound
from tcopt.support.data.shape_text import shape_text
from tcopt.support.data.strings import dtype_text, is_text
from tcopt.support.data.structures import Kind
from tcopt.support.errors import InputError

Array = NDArray[Any]
Shapes: TypeAlias = "tuple[tuple[int, ...], ...]"
"""Shapes of all inputs."""


Dimension: TypeAlias = "int | str | Size | None"
"""A number, the name of an open dimension, a size of the program, or None if it is unknown."""


class TensorSpec(NamedTuple):
    """An input or output: its ONNX name, shape and numpy type.

    For a sequence or optional (`kind`), they describe its element tensors. If even the rank is open
    (`any_rank`), the shape is empty.

    A dimension that the model leaves open is None or the name of its symbol, until it is fixed.
    `dims` keeps the names after that; it is empty if no name is known. A dimension of a program for
    a range of sizes is a `Size`.

    An output that is in the memory of an input names it in `in_place_of`. A tensor that is in a
    room has the extents of the room in `room`: it begins where the room begins, with its strides.
    """

    name: str
    shape: tuple[Dimension, ...]
    dtype: np.dtype[Any]
    dims: tuple[int | str | None, ...] = ()
    any_rank: bool = False
    kind: Kind = Kind.TENSOR
    in_place_of: str = ""
    room: tuple[Dimension, ...] = ()

    def __str__(self) -> str:
        kind = "" if self.kind is Kind.TENSOR else f"{self.kind}, "
        shape = " of any shape" if self.any_rank else f"[{shape_text(self.shape)}]"
        return f'"{self.name}" {kind}{dtype_text(self.dtype)}{shape}'

    def symbols(self, shape: Sequence[Dimension]) -> Iterator[tuple[str, int]]:
        """Yield each named dimension, and its extent in a tensor of this shape."""
        for name, extent in zip(self.dims or self.shape, shape, strict=False):
            if isinstance(name, str) and isinstance(extent, int):
                yield name, extent


def memory_of(spec: TensorSpec) -> TensorSpec:
    """Return the tensor that the code accesses: the whole room of a tensor that is in one."""
    return spec._replace(shape=spec.room, room=()) if spec.room else spec


def bytes_of(spec: TensorSpec) -> int:
    """Return the size in bytes of a tensor of known shape, or of its room; the largest one if it
    has sizes.
    """
    extents = (upper_bound(d) for d in memory_of(spec).shape if isinstance(d, int | Size))
    return prod(extents) * spec.dtype.itemsize


def fixed_symbols(specs: Iterable[TensorSpec]) -> dict[str, int]:
    """Return the fixed extents of a model's named dimensions."""
    return {name: extent for spec in specs for name, extent in spec.symbols(spec.shape)}


class ReadyFeeds:
    """Fast path of the feed check, for arrays that a program can take without conversion.

    Args:
        specs: the inputs.
    """

    def __init__(self, specs: Sequence[TensorSpec]):
        self._wanted = [(spec.name, spec.dtype) for spec in specs]
        # Sequences consist of several arrays.
        self._is_possible = all(spec.kind is Kind.TENSOR for spec in specs)

    def of(self, feeds: Any) -> tuple[list[Array], Shapes, bool] | None:
        """Return the arrays in order, or None if one needs conversion.

        Returns:
            The arrays, their unchecked shapes, and whether all arrays are contiguous, as those
            outside of rooms are.
        """
        if type(feeds) is not dict or not self._is_possible or len(feeds) != len(self._wanted):
            return None
        arrays: list[Array] = []
        shapes: list[tuple[int, ...]] = []
        are_contiguous = True
        for name, dtype in self._wanted:
            array = feeds.get(name)
            if type(array) is not np.ndarray:
                return None
            own = array.dtype
            if dtype.hasobject and own.kind == "U":
                array = array.astype(dtype)
            elif (own is not dtype and own != dtype) or (own.hasobject and not are_texts(array)):
                return None
            if not array.flags.c_contiguous:
                if not is_in_room(array):
                    return None
                are_contiguous = False
            arrays.append(array)
            shapes.append(array.shape)
        return arrays, tuple(shapes), are_contiguous


def select_feeds(
    specs: Sequence[TensorSpec],
    feeds: Mapping[str, Any],
    fixed_by: Mapping[str, str] | None = None,
    open_device: OpenDevice | None = None,
) -> list[Tensor]:
    """Return the tensors of `feeds` in the order of `specs`, contiguous and of the right type.

    Args:
        fixed_by: origin of the extents of named dimensions, for messages.
        open_device: the device that the model runs on; None for a CPU.
    Raises:
        InputError: an input is missing or unknown, its shape or type is wrong, or it is in the
            memory of another device.
    """
    check_names(specs, feeds)
    for spec in specs:
        if spec.name not in feeds:
            hint = f"inputs are {_listed(specs)}"
            raise InputError(f'no value given for input "{spec.name}"', hint=hint)
    found = [_checked(spec, feeds[spec.name], fixed_by or {}, open_device) for spec in specs]
    _check_symbols(specs, found)
    return found


def check_names(specs: Sequence[TensorSpec], feeds: Mapping[str, Any]) -> None:
    """Check that each feed is for an input.

    Raises:
        InputError: one is not.
    """
    check_mapping(feeds)
    known = {spec.name for spec in specs}
    for name in feeds:
        if name not in known:
            hint = f"its inputs are {_listed(specs)}; one with a default value becomes an input of "
            hint += "a saved model if tcopt.compile is given its shape"
            raise InputError(f'the model has no input "{name}"', hint=hint)


def check_mapping(feeds: object) -> None:
    """Check that feeds are values by name.

    Raises:
        InputError: they are something else.
    """
    if not isinstance(feeds, Mapping):
        raise InputError(
            f"feeds must be a mapping from input names to values, not {type(feeds).__name__}",
            hint='as in model.run({"x": x})',
        )


def _listed(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(map(str, specs)) or "none"


def _check_symbols(specs: Sequence[TensorSpec], arrays: Sequence[Tensor]) -> None:
    """Warn if dimensions with the same name have different extents.

    Exporters reuse names; operators that need the extents to agree report it themselves.
    """
    known: dict[str, tuple[int, str]] = {}
    for spec, array in zip(specs, arrays, strict=True):
        if any(isinstance(extent, Size) for extent in spec.shape):
            continue  # The program solves its sizes.
        for name, extent in spec.symbols(array.shape):
            first, other = known.setdefault(name, (extent, spec.name))
            if first != extent:
                warnings.warn(
                    f"got shape {list(array.shape)} for input {spec}: {name} is {extent}, "
                    f'but {first} in input "{other}"',
                    stacklevel=2,
                )


def _checked(
    spec: TensorSpec, given: Any, fixed_by: Mapping[str, str], open_device: OpenDevice | None
) -> Tensor:
    array = tensor_of(spec, spec.dtype, given, open_device)
    if is_text(spec.dtype) and isinstance(array, np.ndarray):
        array = texts_of(spec, array)
    if array.dtype != spec.dtype:
        raise InputError(
            f'input "{spec.name}" has type {array.dtype}, the model wants {dtype_text(spec.dtype)}',
            hint="give an array of strings"
            if is_text(spec.dtype)
            else f"convert it with .astype(numpy.{spec.dtype})",
        )
    fits = len(array.shape) == len(spec.shape) and all(
        not isinstance(want, int) or want == have
        for want, have in zip(spec.shape, array.shape, strict=True)
    )
    if not fits and not spec.any_rank:
        raise _misfit(spec, array.shape, fixed_by)
    if isinstance(array, np.ndarray) and not (array.flags.c_contiguous or is_in_room(array)):
        return np.array(array, order="C")
    return array


def _misfit(spec: TensorSpec, shape: Sequence[int], fixed_by: Mapping[str, str]) -> InputError:
    """Return the error for a feed of the wrong shape; it names the symbols with other extents."""
    message = f"got shape {list(shape)} for input {spec}"
    if len(shape) != len(spec.shape):
        return InputError(message)
    wanted = dict(spec.symbols(spec.shape))
    wrong = {n: extent for n, extent in spec.symbols(shape) if wanted.get(n, extent) != extent}
    if not wrong:
        return InputError(message)
    told = [
        f"{name} is {extent}, the model was compiled for {name} = {wanted[name]}"
        + (f" ({fixed_by[name]})" if name in fixed_by else "")
        for name, extent in wrong.items()
    ]
    given = ", ".join(f'"{name}": {extent}' for name, extent in wrong.items())
    return InputError(
        f"{message}: {'; '.join(told)}",
        hint=f"compile it with dims={{{given}}}, or without, so that each run may have its own",
    )
