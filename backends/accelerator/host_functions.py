"""`accelerator_run`: the host function that runs a program on a simulated accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from tcopt.backends.accelerator.code import FUNCTION, Array, Code, Settings, code_in
from tcopt.support.host.host_functions.registry import buffer_function

_KEPT = 256
"""Maximum number of decoded programs to cache."""


@buffer_function(FUNCTION)
def accelerator_run(settings: Settings, arrays: Sequence[Array]) -> None:
    """Run the program in the settings on buffers, in program order.

    Unsigned bytes are treated as signed ones.
    """
    views = [_as_signed(array) for array in arrays]
    shapes = tuple(array.shape for array in views)
    bits = tuple(array.itemsize * 8 for array in views)
    key = tuple((name, _frozen(value)) for name, value in sorted(settings.items()))
    _decoded(key, shapes, bits).execute(views)


@lru_cache(maxsize=_KEPT)
def _decoded(
    key: tuple[tuple[str, Any], ...], shapes: tuple[tuple[int, ...], ...], bits: tuple[int, ...]
) -> Code:
    return code_in(dict(key), shapes, bits)


def _as_signed(array: Array) -> Array:
    return array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array


def _frozen(value: Any) -> Any:
    """Convert a setting to a hashable value; settings from files have lists."""
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value
