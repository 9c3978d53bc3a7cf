"""Select and order tests.

Tests marked `nightly` repeat the checks of cheaper tests on more models, machines or random inputs.
They run with `--nightly`, and alone with `--nightly-only`. `nightly(daily=[...])` names the
parameter sets that always run, `nightly(only=[...])` those that do not; with `nightly(every=4)`,
one in four runs. `--quick` runs the files that take less than `QUICK_SECONDS`, and the tests marked
`quick`.

Tests run longest file first, by the CPU times last recorded with `--record-times`, so that no
worker is left with a long file at the end. `--shuffle SEED` runs them in a random order instead.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest

_TIMES = Path(__file__).with_name("times.json")
_KEY = "cpu_seconds"
_recorded: defaultdict[str, float] = defaultdict(float)

QUICK_SECONDS = 0.8
"""Maximum CPU time of a file for `--quick`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tcopt")
    group.addoption("--nightly", action="store_true", help="also run the tests marked 'nightly'")
    group.addoption(
        "--nightly-only", action="store_true", help="run only the tests that '--nightly' adds"
    )
    group.addoption("--quick", action="store_true", help="run only what takes little time")
    group.addoption("--shuffle", type=int, metavar="SEED", help="run in a random order")
    group.addoption(
        "--record-times", action="store_true", help="write the CPU time of each file to times.json"
    )


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "nightly(daily, only, every): runs with --nightly only",
        "quick: runs with --quick as well",
    ):
        config.addinivalue_line("markers", line)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--quick`, files that are too long and mark no test `quick` are not imported."""
    if not config.getoption("quick") or collection_path.suffix != ".py":
        return None
    name = collection_path.relative_to(config.rootpath).as_posix()
    if _recorded_times().get(name, 0.0) < QUICK_SECONDS:
        return None
    return True if "mark.quick" not in collection_path.read_text(encoding="utf-8") else None


@cache
def _recorded_times() -> dict[str, float]:
    return json.loads(_TIMES.read_text()) if _TIMES.exists() else {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    times = _recorded_times()
    kept, left = [], []
    positions: Counter[str] = Counter()
    for item in items:
        function = item.nodeid.partition("[")[0]
        is_daily = _is_daily(item, positions[function])
        runs = not is_daily if config.getoption("nightly_only") else is_daily
        runs = runs or config.getoption("nightly")
        positions[function] += 1
        if config.getoption("quick") and item.get_closest_marker("quick") is None:
            runs = runs and times.get(_file_of(item.nodeid), 0.0) < QUICK_SECONDS
        (kept if runs else left).append(item)
    config.hook.pytest_deselected(items=left)
    if (seed := config.getoption("shuffle")) is not None:
        random.Random(seed).shuffle(kept)
    else:
        # Files without a record go first, since their time is unknown.
        kept.sort(key=lambda item: -times.get(_file_of(item.nodeid), float("inf")))
    items[:] = kept


def _is_daily(item: pytest.Item, position: int) -> bool:
    """Whether a test runs without `--nightly`.

    Args:
        position: index of its parameters among those of its function.
    """
    mark = item.get_closest_marker("nightly")
    if mark is None:
        return True
    if "every" in mark.kwargs:
        return position % mark.kwargs["every"] == 0
    name = (
        item.callspec.id if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ""
    )
    if "only" in mark.kwargs:
        return name not in mark.kwargs["only"]
    return name in mark.kwargs.get("daily", ())


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of the children that it has waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    start = _cpu_seconds()
    item.stash[_START] = start
    return (yield)


_START = pytest.StashKey[float]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "teardown":
        report.user_properties.append((_KEY, _cpu_seconds() - item.stash[_START]))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        _recorded[_file_of(report.nodeid)] += dict(report.user_properties).get(_KEY, 0.0)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the record in the process that receives all reports."""
    if session.config.getoption("record_times") and "PYTEST_XDIST_WORKER" not in os.environ:
        times = {name: round(seconds, 1) for name, seconds in sorted(_recorded.items())}
        _TIMES.write_text(json.dumps(times, indent=0) + "\n")
