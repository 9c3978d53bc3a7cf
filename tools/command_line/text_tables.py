"""Rendering of tables as plain text."""

from __future__ import annotations

import shutil

from rich.console import Console
from rich.table import Table


def render(table: Table) -> str:
    """Return a table as text, at least 160 columns wide."""
    width = max(shutil.get_terminal_size().columns, 160)
    console = Console(width=width, color_system=None, markup=False, emoji=False, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
