"""`vdla_run`: the host function that runs a program on a simulated VDLA."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from tcopt.backends.vdla.encoding import decode
from tcopt.backends.vdla.settings import FUNCTION, Settings, program_in
from tcopt.backends.vdla.simulator.function import Array, Plans, run_stream
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla.stream import Stream
from tcopt.support.host.host_functions.registry import buffer_function

_KEPT = 256
"""Maximum number of decoded programs to cache."""


@buffer_function(FUNCTION)
def vdla_run(settings: Settings, arrays: Sequence[Array]) -> None:
    """Run the program in the settings on buffers, in the order of its stream.

    Unsigned bytes are treated as signed ones.
    """
    views = [_as_signed(array) for array in arrays]
    shapes = tuple(array.shape for array in views)
    bits = tuple(array.itemsize * 8 for array in views)
    key = tuple((name, _frozen(value)) for name, value in sorted(settings.items()))
    stream, target, plans = _decoded(key, shapes, bits)
    run_stream(stream, target, views, plans=plans)


@lru_cache(maxsize=_KEPT)
def _decoded(
    key: tuple[tuple[str, Any], ...], shapes: tuple[tuple[int, ...], ...], bits: tuple[int, ...]
) -> tuple[Stream, VdlaTargetAttr, Plans]:
    encoded, target = program_in(dict(key), shapes, bits)
    return decode(encoded, target), target, {}


def _as_signed(array: Array) -> Array:
    return array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array


def _frozen(value: Any) -> Any:
    """Convert a setting to a hashable value; settings from files have lists."""
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value
