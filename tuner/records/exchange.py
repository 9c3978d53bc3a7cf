"""Records as JSON lines, for exchange or storage with a model, readable without a database.

Each line is self-contained: a trial with its workload, target, machine and schedule.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from sqlalchemy import JSON, Boolean, Column, Integer, String, Table, select

from tcopt.schedules.tuning.workloads import key_of
from tcopt.support.errors import InputError, TcoptError
from tcopt.support.files.access import cannot_read, open_file, write_output
from tcopt.tuner.records.lines import FORMAT, NAMED, Rows, lines_of
from tcopt.tuner.records.schema import SCHEDULE, TRIAL, WORKLOAD
from tcopt.tuner.records.store import Store
from tcopt.tuner.records.trials import Row, Trial

_BATCH = 200
_MOST = 1 << 31
_LARGEST = 1e300


@dataclass(frozen=True)
class Imported:
    """Result of an import.

    Attributes:
        new: number of trials that were added; `known`: number that were present already.
        refused: errors of the lines that were skipped.
    """

    new: int
    known: int
    refused: tuple[str, ...] = ()


def export_records(store: Store, path: str | Path, trials: Iterable[Trial] | None = None) -> int:
    """Write trials to a file.

    Args:
        trials: by default all.
    Returns:
        The number of trials written.
    Raises:
        InputError: the file cannot be written.
    """
    chosen = list(store.trials() if trials is None else trials)
    rows: Rows = [(table, row) for _, table in NAMED for row in store.rows(select(table))]
    rows += [(TRIAL, trial.row()) for trial in chosen]
    text = "".join(f"{json.dumps(line, sort_keys=True)}\n" for line in lines_of(rows))
    write_output(path, text)
    return len(chosen)


def import_records(
    store: Store, path: str | Path, *, applies: Callable[[str, str], None] | None = None
) -> Imported:
    """Add the trials of a file, skipping those that are present already.

    Args:
        applies: checks that a schedule applies to a workload, both given as text, and raises an
            error otherwise; called once for each pair.
    Raises:
        InputError: there is no such file, or it has no records.
        StoreError: they cannot be written.
    """
    before, count, refused = store.count(), 0, list[str]()
    judged: dict[tuple[str, str], str] = {}
    rows: Rows = []
    for number, text in enumerate(_lines(path), 1):
        try:
            found = _read_line(text, applies, judged)
        except TcoptError as error:
            refused.append(f"{path}:{number}: {error.message}")
            continue
        count += 1
        rows += found
        if count % _BATCH == 0:
            _keep(store, rows)
            rows = []
    if refused and not count:
        raise InputError(f"the file has no valid record: {refused[0]}", where=str(path))
    _keep(store, rows)
    new = store.count() - before
    return Imported(new, count - new, tuple(refused))


def _keep(store: Store, rows: Rows) -> None:
    store.add_rows(rows)
    store.flush()


def _lines(path: str | Path) -> Iterator[bytes]:
    try:
        with open_file(path) as stream:
            data = stream.read()
    except OSError as error:
        raise cannot_read(path, error) from error
    return (line for line in data.split(b"\n") if line.strip())


def _read_line(
    text: bytes, applies: Callable[[str, str], None] | None, judged: dict[tuple[str, str], str]
) -> Rows:
    """Return the rows of a line.

    Raises:
        TcoptError: it is not a record, or its schedule does not apply.
    """
    try:
        line = json.loads(text, parse_constant=_refuse_constant)
        if line["format"] != FORMAT:
            raise InputError(f"record format {line['format']}, expected {FORMAT}")
        rows = [_row(table, line[name]) for name, table in NAMED if line.get(name)]
        given: Row = dict(rows).get(SCHEDULE, {})
        trial = Trial.of(_row(TRIAL, line["trial"])[1], given.get("text", ""))
        trial.check()
    except (
        ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError
    ) as error:  # fmt: skip
        raise InputError(f"this is not a record: {type(error).__name__}: {error}") from error
    workload = dict(rows).get(WORKLOAD)
    if workload and key_of(workload["te_text"]) != trial.workload:
        raise InputError("the workload's content does not match the trial's key")
    if applies is not None and trial.sequence and workload:
        pair = trial.workload, trial.schedule
        if pair not in judged:
            judged[pair] = _judge(applies, workload["te_text"], trial.sequence)
        if judged[pair]:
            raise InputError(judged[pair])
    return [*rows, (TRIAL, trial.row())]


def _judge(applies: Callable[[str, str], None], workload: str, sequence: str) -> str:
    try:
        applies(workload, sequence)
    except TcoptError as error:
        return f"its schedule does not apply: {error.message}"
    except MemoryError:
        raise
    # Third-party texts may cause exceptions that valid ones do not.
    except Exception as error:
        return f"its schedule does not apply: {type(error).__name__}: {error}"
    return ""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _row(table: Table, given: Mapping[str, Any]) -> tuple[Table, Row]:
    """Check that a row has the columns of a table, with values of their types.

    Raises:
        ValueError: it does not.
    """
    names = {column.name for column in table.columns}
    if set(given) != names:
        raise ValueError(f"a {table.name} has the columns {', '.join(sorted(names))}")
    for column in table.columns:
        if not _fits(column, given[column.name]):
            raise ValueError(f"{table.name}.{column.name} is not a {column.type}")
    return table, dict(given)


def _fits(column: Column[Any], value: Any) -> bool:
    """Whether a database can hold a value in a column."""
    if value is None:
        return bool(column.nullable)
    match column.type:
        case JSON():
            kind = list if column is TRIAL.c.ns else dict
            return type(value) is kind and _is_json(cast(object, value))
        case String() as kind:
            return _is_text(value) and len(value) <= (kind.length or len(value))
        case Boolean():
            return isinstance(value, bool)
        case Integer():
            return _is_number(value) and isinstance(value, int) and -_MOST <= value < _MOST
        case _:
            return _is_number(value)


def _is_text(value: object) -> bool:
    if not isinstance(value, str) or "\0" in value:
        return False
    # Unpaired surrogates are not Unicode text.
    return value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < _LARGEST


def _is_json(value: object) -> bool:
    """Whether a value is a list of numbers, or a dictionary of scalars."""
    if isinstance(value, list):
        return all(map(_is_number, cast("list[object]", value)))
    if not isinstance(value, dict):
        return False
    items = cast("dict[str, object]", value).items()
    return all(
        _is_text(name) and (each is None or isinstance(each, bool) or _is_text(each)
                            or _is_number(each))
        for name, each in items
    )  # fmt: skip
