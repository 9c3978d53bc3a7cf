"""The saved results that claims are answered from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from gpus.rows import MACHINE, Row, read_rows
from saved import FOLDER, load

GPU_ROWS = "gpu.jsonl"
"""Rows of `gpu.py`, which are a line each; other results are one JSON object."""


class Results:
    """Saved results by name, read when they are asked for."""

    def __init__(self, folder: Path = FOLDER):
        self._folder = folder
        self._known: dict[str, dict[str, Any]] = {}

    def has(self, name: str) -> bool:
        return any((self._folder / f"{name}.{ending}").exists() for ending in ("json", "jsonl"))

    def file(self, name: str) -> dict[str, Any]:
        """Everything of a result.

        Raises:
            InputError: there is no such result.
        """
        if name not in self._known:
            self._known[name] = load(self._folder / f"{name}.json")
        return self._known[name]

    def rows(self, name: str) -> list[Mapping[str, Any]]:
        return self.file(name)["rows"]

    def names(self) -> list[str]:
        """All results that are one JSON object."""
        return sorted(path.stem for path in self._folder.glob("*.json"))

    @cached_property
    def gpu(self) -> dict[str, Row]:
        """Rows of `gpu.py`."""
        return read_rows(self._folder / GPU_ROWS)

    @property
    def card(self) -> str:
        """The GPU of these rows."""
        return self.gpu[MACHINE]["device"]
