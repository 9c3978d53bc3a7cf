"""The saved results that claims are answered from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from gpus.rows import MACHINE, Row, read_rows
from saved import FOLDER, load

GPU_ROWS = "gpu.jsonl"
"""Rows of `gpu.py` from a machine with a card; the file is optional."""


class Results:
    """Saved results by name, read when they are asked for."""

    def __init__(self, folder: Path = FOLDER):
        self._folder = folder
        self._known: dict[str, dict[str, Any]] = {}

    def has(self, name: str) -> bool:
        return (self._folder / f"{name}.json").exists()

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
        """All results that there are."""
        return sorted(path.stem for path in self._folder.glob("*.json"))

    @cached_property
    def gpu(self) -> dict[str, Row]:
        """Rows of `gpu.py`; empty without a card."""
        path = self._folder / GPU_ROWS
        return read_rows(path) if path.exists() else {}

    @property
    def card(self) -> str:
        """The GPU of these rows, or nothing."""
        return self.gpu.get(MACHINE, {}).get("device", "")
