"""Database rows as self-contained JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Table

from tcopt.tuner.records.schema import MACHINE, SCHEDULE, TARGET, TRIAL, WORKLOAD
from tcopt.tuner.records.trials import Row

FORMAT = 1
NAMED = (("workload", WORKLOAD), ("target", TARGET), ("machine", MACHINE), ("schedule", SCHEDULE))
"""Tables that a trial refers to, by the name of the trial's column."""

Rows = list[tuple[Table, Row]]


def lines_of(rows: Rows) -> Iterator[dict[str, Any]]:
    """Yield a line for each trial in the rows, including the rows that it refers to."""
    known: dict[tuple[str, str], Row] = {}
    for table, row in rows:
        if table is not TRIAL:
            known[table.name, row[_key_of(table)]] = row
    for table, row in rows:
        if table is TRIAL:
            named = {name: known.get((name, row[name])) for name, _ in NAMED}
            yield {"format": FORMAT, "trial": row, **named}


def _key_of(table: Table) -> str:
    return next(column.name for column in table.columns if column.primary_key)
