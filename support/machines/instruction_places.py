"""Source nodes of a program's instructions, as settings of the host call that runs it.

A kernel is compiled once for all equal functions, so its instructions refer to op numbers of the
function (`#3`). These are replaced by node names at each call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NODES, ORIGINS = "nodes", "origins"


def place_settings(places: Sequence[str]) -> dict[str, Any]:
    """Encode the nodes of instructions as settings: distinct names, and their indices."""
    names = list(dict.fromkeys(places))
    numbers = {name: number for number, name in enumerate(names)}
    return {NODES: names, ORIGINS: ",".join(str(numbers[place]) for place in places)}


def places_in(settings: Mapping[str, Any]) -> list[str]:
    """Decode the nodes of instructions from settings; empty if there are none."""
    names = [str(name) for name in settings.get(NODES, ())]
    numbers = str(settings.get(ORIGINS, ""))
    return [names[int(number)] for number in numbers.split(",")] if numbers else []


def with_nodes(settings: Mapping[str, Any], told: Mapping[str, str]) -> Mapping[str, Any]:
    """Replace the names of nodes in settings by the given ones."""
    if NODES not in settings:
        return settings
    renamed = [
        ", ".join(dict.fromkeys(told.get(part, part) for part in str(name).split(", ")))
        for name in settings[NODES]
    ]
    return {**settings, NODES: renamed}
