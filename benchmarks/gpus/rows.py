"""Rows of results in a file: one JSON object a line, written as soon as it is known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tcopt.support.errors import InputError

Row = dict[str, Any]
"""Always with `key`; with `error` if a measurement failed, else with what was measured."""

MACHINE = "machine"
"""Key of the row that says where the others were measured."""


class Rows:
    """The rows of a file, by their keys; the last one of a key counts."""

    def __init__(self, path: Path, *, resume: bool, retry: bool = False):
        """Open a file.

        Args:
            resume: keep the rows that the file has; it starts anew otherwise.
            retry: forget those that are errors.
        """
        self._path = path
        self.found = read_rows(path) if resume and path.exists() else {}
        if retry:
            self.found = {key: row for key, row in self.found.items() if "error" not in row}
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps(row) + "\n" for row in self.found.values())
        path.write_text("".join(lines), encoding="utf-8")

    def __contains__(self, key: str) -> bool:
        return key in self.found

    def add(self, key: str, values: Mapping[str, Any]) -> Row:
        """Append a row to the file."""
        row = {"key": key, **values}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        self.found[key] = row
        return row

    def check_machine(self, facts: Mapping[str, Any]) -> None:
        """Note the machine, or compare it with the one of the rows that are kept.

        Raises:
            InputError: the rows are another device's.
        """
        if MACHINE not in self:
            self.add(MACHINE, facts)
        elif (other := self.found[MACHINE]["device"]) != facts["device"]:
            raise InputError(
                f"'{self._path}' has measurements of {other}, the device is {facts['device']}",
                hint="name another file with --output, or start anew without --resume",
            )


def read_rows(path: Path) -> dict[str, Row]:
    """The rows of a file by their keys; a last line that was cut off is skipped.

    Raises:
        InputError: the file has no rows.
    """
    found: dict[str, Row] = {}
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        try:
            row = json.loads(line)
            found[row["key"]] = row
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines) - 1:
                break
            raise InputError(f"'{path}', line {number + 1}: not a row of results") from error
    return found
