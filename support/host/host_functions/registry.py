"""Registry of the Python functions that programs call by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tcopt.support.data.strings import current_strings
from tcopt.support.errors import InputError
from tcopt.support.registries.registration import Registry

Array = NDArray[Any]
Settings = Mapping[str, Any]
"""Settings of a call in addition to arrays: numbers, strings, and lists of them, by name."""


class Form(NamedTuple):
    """Shape and type of an array; string arrays have the type of indices into the string table."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


Function = Callable[[Settings, Sequence[Array], Sequence[Form]], Sequence[Array]]
BufferFunction = Callable[[Settings, Sequence[Array]], None]


@dataclass(frozen=True)
class HostFunction:
    """A host function on arrays.

    Attributes:
        run: computes results from settings, operands and the form of each result.
        takes, gives: whether each operand and each result is an array of strings.
        on_buffers: used instead of the other attributes: works in place on any number of numeric
            arrays.
    """

    run: Function
    takes: tuple[bool, ...] = ()
    gives: tuple[bool, ...] = ()
    on_buffers: BufferFunction | None = None

    def accepts(self, count: int) -> bool:
        """Whether the function has this total number of operands and results."""
        return self.on_buffers is not None or count == len(self.takes) + len(self.gives)

    def compute(self, settings: Settings, arrays: Sequence[Array]) -> None:
        """Compute from the operand arrays into the result arrays that follow them.

        Raises:
            InputError: invalid operands, or a wrong number of them.
        """
        if self.on_buffers is not None:
            self.on_buffers(settings, arrays)
            return
        count = len(self.takes)
        operands = [array.view() for array in arrays[:count]]
        for array in operands:
            array.flags.writeable = False
        forms = [Form(array.shape, array.dtype) for array in arrays[count:]]
        results = self.on_places(settings, operands, forms)
        for array, result in zip(arrays[count:], results, strict=True):
            np.copyto(array, result, casting="unsafe")

    def on_places(
        self, settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]
    ) -> list[Array]:
        """Compute results; strings are indices into the current table, see `support.data.strings`.

        Raises:
            InputError: invalid operands, or a wrong number of them.
        """
        if len(arrays) != len(self.takes) or len(forms) != len(self.gives):
            raise InputError(
                f"expected {len(self.takes)} operands and {len(self.gives)} results, "
                f"got {len(arrays)} and {len(forms)}"
            )
        if not any(self.takes) and not any(self.gives):
            found = self.run(settings, arrays, forms)
        else:
            table = current_strings()
            given = [
                table.decode(array) if text else array
                for array, text in zip(arrays, self.takes, strict=True)
            ]
            found = self.run(settings, given, forms)
            found = [
                table.encode(array) if text else array
                for array, text in zip(found, self.gives, strict=True)
            ]
        for array, form in zip(found, forms, strict=True):
            if array.shape != form.shape:
                raise InputError(
                    f"a result has shape {list(array.shape)} instead of {list(form.shape)}"
                )
        return list(found)


HOST_FUNCTIONS: Registry[str, HostFunction] = Registry("host function")


def host_function(
    name: str, *, takes: Sequence[bool], gives: Sequence[bool]
) -> Callable[[Function], Function]:
    """Register a function by name; `takes` and `gives` mark arrays of strings."""

    def register(function: Function) -> Function:
        found = HostFunction(function, tuple(takes), tuple(gives))
        HOST_FUNCTIONS.add(name, found, by=function)
        return function

    return register


def buffer_function(name: str) -> Callable[[BufferFunction], BufferFunction]:
    """Register a function that works in place on buffers."""

    def register(function: BufferFunction) -> BufferFunction:
        found = HostFunction(_not_on_values, on_buffers=function)
        HOST_FUNCTIONS.add(name, found, by=function)
        return function

    return register


def _not_on_values(settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]) -> NoReturn:
    raise InputError("the function works on buffers, not on values")


def find_host_function(name: str) -> HostFunction:
    """Return a host function by name.

    Raises:
        InputError: no function has this name.
    """
    found = HOST_FUNCTIONS.get(name)
    if found is None:
        raise InputError(
            f"there is no host function {name!r}", hint="compile the model with this version"
        )
    return found
