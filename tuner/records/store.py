"""Storage of trials in a database, SQLite by default.

A failed write never fails a tuning session. Rows that cannot be written, because the disk is full
or the database is locked, are held in memory and written with the next trial. At the end they are
saved to a file that can be imported.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Select, Table, create_engine, event, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from tcopt.support.errors import InputError, TcoptError, UnsupportedError
from tcopt.tuner.measure.outcomes import OK
from tcopt.tuner.records.lines import Rows, lines_of
from tcopt.tuner.records.schema import (
    CONTENT,
    MACHINE,
    META,
    SCHEDULE,
    TABLES,
    TARGET,
    TRIAL,
    VERSION,
    WORKLOAD,
)
from tcopt.tuner.records.trials import Row, Setting, Trial, task_rows
from tcopt.tuner.tasks import Task

BUSY_S = 30.0
"""Seconds that SQLite waits for other writers."""

_BATCH = 500

UPGRADES: Mapping[int, Callable[[Connection], None]] = {}
"""Migrations of the tables, each from a version to the next."""


class StoreError(TcoptError):
    """Records cannot be read or written."""

    code = "records"


def default_path() -> Path:
    """Return the path of the user's records."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "tcopt" / "tuning.db"


class Store:
    """Records in one database.

    Args:
        address: a file for SQLite, or a URL such as `postgresql://host/database`; by default the
            user's file.
        busy_s: how long to wait for other writers.
    Raises:
        InputError: there is no such database, or it has a later version.
        UnsupportedError: its driver is not installed.
    """

    def __init__(self, address: str | Path | None = None, *, busy_s: float = BUSY_S):
        self.address = str(address or default_path())
        self._engine = _engine(self.address, busy_s)
        self._pending: Rows = []
        self._reason = ""
        try:
            with self._engine.begin() as connection:
                _prepare(connection, self.address)
        except DBAPIError as error:
            raise InputError(
                f"cannot open the records: {_said(error)}", where=self.shown
            ) from error

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def shown(self) -> str:
        """The address without a password."""
        if "://" not in self.address:
            return self.address
        return make_url(self.address).render_as_string(hide_password=True)

    # Write operations.

    @property
    def pending(self) -> int:
        """Number of rows that are not written yet."""
        return len(self._pending)

    def add(self, task: Task, trials: Iterable[Trial], setting: Setting) -> bool:
        """Store trials of a task, in one transaction.

        Returns:
            Whether they were written; otherwise they are pending, see `flush`.
        """
        workload, target = task_rows(task)
        machine = {"key": setting.machine_key, "facts": dict(setting.machine)}
        rows: Rows = [(WORKLOAD, workload), (TARGET, target), (MACHINE, machine)]
        for trial in trials:
            rows += _rows_of(trial)
        return self._write(rows)

    def add_rows(self, rows: Rows) -> bool:
        """Store rows of any table."""
        return self._write(rows)

    def _write(self, rows: Rows) -> bool:
        self._pending += rows
        try:
            self.flush()
        except StoreError as error:
            self._reason = error.message
            return False
        return True

    def flush(self) -> None:
        """Write pending rows to the database.

        Raises:
            StoreError: they still cannot be written.
        """
        if not self._pending:
            return
        try:
            with self._engine.begin() as connection:
                _insert(connection, self._pending)
        except SQLAlchemyError as error:
            raise StoreError(
                f"cannot write {len(self._pending)} rows: {_said(error)}",
                where=self.shown,
                hint="they are kept in memory and tried again",
            ) from error
        self._pending = []

    def close(self) -> None:
        """Write pending rows, or save them to a temporary file if that fails.

        Raises:
            StoreError: it names that file.
        """
        try:
            self.flush()
        except StoreError as error:
            path = _spill(self._pending)
            self._pending = []
            raise StoreError(
                f"{error.message}; they are in {path}",
                where=self.shown,
                hint=f"tcopt-tune import {path} once the cause is fixed",
            ) from error
        finally:
            self._engine.dispose()

    # Read operations.

    def trials(
        self,
        *,
        workloads: Sequence[str] | None = None,
        target: str | None = None,
        machine: str | None = None,
        status: str | None = None,
        code_version: str | None = None,
        limit: int | None = None,
    ) -> list[Trial]:
        """Return trials, the fastest first, failed ones last.

        Pending rows are not included.
        """
        query = select(TRIAL, SCHEDULE.c.text).outerjoin(
            SCHEDULE, TRIAL.c.schedule == SCHEDULE.c.hash
        )
        if workloads is not None:
            query = query.where(TRIAL.c.workload.in_(list(workloads)))
        for column, wanted in (
            (TRIAL.c.target, target),
            (TRIAL.c.machine, machine),
            (TRIAL.c.status, status),
            (TRIAL.c.code_version, code_version),
        ):
            if wanted is not None:
                query = query.where(column == wanted)
        query = query.order_by(TRIAL.c.median_ns.is_(None), TRIAL.c.median_ns, TRIAL.c.id)
        found: list[Trial] = []
        for row in self.rows(query if limit is None else query.limit(limit)):
            text = row.pop("text")
            found.append(Trial.of(row, text or ""))
        return found

    def best(
        self, workload: str, target: str, *, machine: str | None = None, count: int = 1
    ) -> list[Trial]:
        """Return the trials with the best ratio to their default's time, of distinct schedules."""
        trials = self.trials(workloads=[workload], target=target, machine=machine, status=OK)
        found: dict[str, Trial] = {}
        for trial in sorted(trials, key=lambda each: each.ratio):
            found.setdefault(trial.schedule, trial)
        return list(found.values())[:count]

    def workloads(self, *, anchor: str | None = None) -> list[Row]:
        """Return rows of workloads, all or those with an anchor."""
        query = select(WORKLOAD)
        return self.rows(query if anchor is None else query.where(WORKLOAD.c.anchor == anchor))

    def count(self, table: Table = TRIAL) -> int:
        """Return the number of rows of a table."""
        (row,) = self.rows(select(func.count().label("count")).select_from(table))
        return int(row["count"])

    def rows(self, query: Select[Any]) -> list[Row]:
        """Return the rows of a query as dictionaries."""
        try:
            with self._engine.connect() as connection:
                return [dict(row) for row in connection.execute(query).mappings()]
        except DBAPIError as error:
            raise StoreError(f"cannot read: {_said(error)}", where=self.shown) from error

    def merge(self, other: Store) -> int:
        """Add all rows of another database that this one lacks.

        Returns:
            The number of new trials.
        Raises:
            StoreError: the other cannot be read, or this one cannot be written.
        """
        before = self.count()
        for table in CONTENT:
            rows = other.rows(select(table))
            for start in range(0, len(rows), _BATCH):
                self._pending += [(table, row) for row in rows[start : start + _BATCH]]
                self.flush()
        return self.count() - before


def _rows_of(trial: Trial) -> Rows:
    schedule = {"hash": trial.schedule, "rule": trial.rule, "text": trial.sequence}
    return [*([(SCHEDULE, schedule)] if trial.sequence else []), (TRIAL, trial.row())]


def _insert(connection: Connection, rows: Rows) -> None:
    """Insert rows that are not present yet, in batches."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    for table in CONTENT:
        own = [row for each, row in rows if each is table]
        for start in range(0, len(own), _BATCH):
            connection.execute(insert(table).on_conflict_do_nothing(), own[start : start + _BATCH])


def _engine(address: str, busy_s: float) -> Engine:
    url = _url(address)
    try:
        engine = create_engine(url)
    except (ArgumentError, NoSuchModuleError) as error:
        raise InputError(
            f"'{address}' is not an address of a database: {error}",
            hint="it is a file, or postgresql://user@host/database",
        ) from error
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"records in PostgreSQL need the package {error.name}",
            hint="pip install tcopt[tune-postgres]",
        ) from error
    if engine.dialect.name == "sqlite":
        _use_sqlite(engine, busy_s)
    return engine


def _url(address: str) -> str:
    if "://" not in address:
        path = Path(address).expanduser()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder of '{path}': {error.strerror}") from error
        return f"sqlite:///{path.absolute()}"
    for name in ("postgresql://", "postgres://"):
        if address.startswith(name):
            return f"postgresql+psycopg://{address.removeprefix(name)}"
    return address


def _use_sqlite(engine: Engine, busy_s: float) -> None:
    """Allow readers during a write, and wait for other writers."""

    def connected(connection: Any, record: object) -> None:
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={int(busy_s * 1000)}")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.close()

    event.listen(engine, "connect", connected)


def _prepare(connection: Connection, address: str) -> None:
    """Create the tables, or upgrade those of an older version."""
    TABLES.create_all(connection)
    found = connection.execute(select(META.c.version)).scalar()
    if found is None:
        insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
        first = insert(META).values(id=1, version=VERSION)
        connection.execute(first.on_conflict_do_nothing())
        return
    if found > VERSION:
        raise InputError(
            f"the records have version {found}, expected at most {VERSION}",
            where=address,
            hint="use the version of tcopt that wrote them, or another database",
        )
    for version in range(found, VERSION):
        UPGRADES[version](connection)
    if found < VERSION:
        connection.execute(META.update().values(version=VERSION))


def _spill(rows: Rows) -> Path:
    """Write rows to a file that `exchange.import_records` reads."""
    descriptor, name = tempfile.mkstemp(".jsonl", f"tcopt-trials-{int(time.time())}-")
    with open(descriptor, "w", encoding="utf-8") as stream:
        stream.writelines(f"{json.dumps(line)}\n" for line in lines_of(rows))
    return Path(name)


def _said(error: SQLAlchemyError) -> str:
    origin = getattr(error, "orig", None) or error
    return next(iter(str(origin).strip().splitlines()), type(error).__name__)
