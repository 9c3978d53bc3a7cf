"""Saved results: files of JSON that pages are generated from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tcopt.support.errors import InputError
from tcopt.support.files.access import write_output
from tcopt.tools.benchmarking.machine import machine_facts

FOLDER = Path(__file__).parent / "results"
"""The results that docs/paper.md is generated from."""

Rows = Sequence[Mapping[str, Any]]


def save(path: Path, command: str, rows: Rows, **facts: Any) -> None:
    """Write rows with the machine that they are from.

    Args:
        command: that measured them.
        facts: more about all rows.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    head = {"command": command, "machine": machine_facts(), **facts}
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    text = json.dumps(head, indent=1).removesuffix("\n}")
    write_output(path, f'{text},\n "rows": [\n  {lines}\n ]\n}}\n')


def load(path: Path) -> dict[str, Any]:
    """Read the results that `save` wrote.

    Raises:
        InputError: the file is missing or has no results.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"'{path}' has no saved results: {error}") from None
    if not isinstance(found, dict) or not {"machine", "rows"} <= found.keys():
        raise InputError(f"'{path}' has no saved results")
    return found
