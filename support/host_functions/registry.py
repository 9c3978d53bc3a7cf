"""The table of functions that programs call in Python, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcopt.support.errors import InputError
from tcopt.support.registration import Registry
from tcopt.support.strings import current_strings

Array = NDArray[Any]
Settings = Mapping[str, Any]
"""What a call is given beside arrays: numbers, strings, and lists of them, by name."""


class Form(NamedTuple):
    """The shape and type of an array; the type of places where it is one of strings."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


Function = Callable[[Settings, Sequence[Array], Sequence[Form]], Sequence[Array]]


@dataclass(frozen=True)
class HostFunction:
    """A function on arrays.

    Attributes:
        run: computes results from settings, operands and the form that each result has.
        takes, gives: of each operand and result, whether it is an array of strings.
    """

    run: Function
    takes: tuple[bool, ...]
    gives: tuple[bool, ...]

    def on_places(
        self, settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]
    ) -> list[Array]:
        """The results, where strings are places in the current table, see `support.strings`.

        Raises:
            InputError: operands that the function refuses, or as many as it does not take.
        """
        if len(arrays) != len(self.takes) or len(forms) != len(self.gives):
            raise InputError(
                f"a function of {len(self.takes)} arrays that gives {len(self.gives)} is called "
                f"with {len(arrays)} for {len(forms)}"
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
                    f"the data gives a result of shape {list(array.shape)}, not {list(form.shape)}"
                )
        return list(found)


def _load() -> None:
    package = import_module("tcopt.support.host_functions")
    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")


HOST_FUNCTIONS: Registry[str, HostFunction] = Registry("host function", _load)


def host_function(
    name: str, *, takes: Sequence[bool], gives: Sequence[bool]
) -> Callable[[Function], Function]:
    """Register a function under a name; `takes` and `gives` say what is an array of strings."""

    def register(function: Function) -> Function:
        HOST_FUNCTIONS.add(name, HostFunction(function, tuple(takes), tuple(gives)))
        return function

    return register


def find_host_function(name: str) -> HostFunction:
    """The function of a name.

    Raises:
        InputError: there is none.
    """
    found = HOST_FUNCTIONS.get(name)
    if found is None:
        raise InputError(
            f"there is no host function {name!r}", hint="compile the model with this version"
        )
    return found
