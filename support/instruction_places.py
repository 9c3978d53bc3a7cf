"""Where the instructions of a program come from, as settings of the host call that runs it.

A kernel is made once for all functions that are alike, so nodes are told by numbers of the
function's ops (`#3`), which are names again where a function is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NODES, ORIGINS = "nodes", "origins"


def place_settings(places: Sequence[str]) -> dict[str, Any]:
    """Places of instructions as settings: each once, and which of them each instruction has."""
    names = list(dict.fromkeys(places))
    numbers = {name: number for number, name in enumerate(names)}
    return {NODES: names, ORIGINS: ",".join(str(numbers[place]) for place in places)}


def places_in(settings: Mapping[str, Any]) -> list[str]:
    """The places that settings tell; none where they tell none."""
    names = [str(name) for name in settings.get(NODES, ())]
    numbers = str(settings.get(ORIGINS, ""))
    return [names[int(number)] for number in numbers.split(",")] if numbers else []


def with_nodes(settings: Mapping[str, Any], told: Mapping[str, str]) -> Mapping[str, Any]:
    """Settings whose nodes have other names, as far as these are told."""
    if NODES not in settings:
        return settings
    renamed = [
        ", ".join(dict.fromkeys(told.get(part, part) for part in str(name).split(", ")))
        for name in settings[NODES]
    ]
    return {**settings, NODES: renamed}
