"""This project's dialects, passes and targets for stock `xdsl-opt`, as an entry point.

xDSL rejects a name that two universes define, so replacements of xDSL's own definitions are omitted
here; only `tcopt` finds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from xdsl.dialects import get_all_dialects
from xdsl.targets import get_all_targets
from xdsl.transforms import get_all_passes
from xdsl.universe import Universe

from tcopt.definitions import own_dialects, own_outputs, own_passes

_T = TypeVar("_T")


def _without(own: Mapping[str, _T], taken: Mapping[str, object]) -> dict[str, _T]:
    return {name: factory for name, factory in own.items() if name not in taken}


UNIVERSE = Universe(
    all_dialects=_without(own_dialects(), get_all_dialects()),
    all_passes=_without(own_passes(), get_all_passes()),
    all_targets=_without(own_outputs(), get_all_targets()),
)
