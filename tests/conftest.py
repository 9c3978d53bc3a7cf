"""Fixtures for every test."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from running.examples import examples, is_nightly, set_daily
from tcopt.backends.llvm.machine.host import default_target
from tcopt.compiler.extensions import extensions
from tcopt.support.errors import InputError

pytest_plugins = ["running.selection"]

_BIN = Path(sys.executable).parent
_ENDED: list[str] = []

RunTool = Callable[..., subprocess.CompletedProcess[str]]


def pytest_configure(config: pytest.Config) -> None:
    """A CPU that the tests are not for is said once; PoCL's cache is of this process alone.

    PoCL ends processes that write the same cache, and reads where it is when the first test looks
    for devices. Kernels are compiled in the process of the test, since xdist uses all cores.
    """
    set_daily(not is_nightly(config))
    settings.register_profile(
        "tcopt", deadline=None, derandomize=True, print_blob=True, max_examples=examples(100)
    )
    settings.load_profile("tcopt")
    os.environ.setdefault("TCOPT_WORKERS", "0")
    os.environ["POCL_CACHE_DIR"] = folder = tempfile.mkdtemp(prefix="pocl-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        default_target()
    except InputError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_collection_finish() -> None:
    """The garbage collector leaves the tests and modules themselves alone, and looks seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Keep by what a worker of xdist's ended before its time: that tells a kill from a fault."""
    if error is not None:
        try:
            status = node.gateway._io.popen.wait(timeout=20)
        except subprocess.TimeoutExpired:
            status = "none: it still runs"
        _ENDED.append(f"{node.gateway.id}: {error}; exit status {status}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _ENDED:
        terminalreporter.section("workers that ended")
        terminalreporter.write_line("\n".join(_ENDED))


@pytest.fixture(scope="session", autouse=True)
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kernel cache of this run: shared by all tests and workers, never the user's.

    Whole programs are not kept: a test that compiles a model means to.
    """
    run = tmp_path_factory.getbasetemp()
    folder = (run.parent if "PYTEST_XDIST_WORKER" in os.environ else run) / "kernel_cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TCOPT_CACHE_DIR", str(folder))
        patch.setenv("TCOPT_CACHE", "kernels")
        patch.setenv("XDG_STATE_HOME", str(folder.parent / "state"))
        yield folder


@pytest.fixture(scope="module", autouse=True)
def package_as_it_was() -> Iterator[None]:
    """What tests add to the compiler or change of it is gone when they end: with it, no test
    behind them would use the cache or workers."""
    yield
    left = list(extensions())
    assert not left, f"left behind: {left}"


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every run."""
    return np.random.default_rng(0)


@pytest.fixture
def run_tool() -> RunTool:
    """Run a console script of this environment: `run_tool("tcopt", "a.mlir", input="...")`."""

    def run(
        tool: str, *arguments: object, input: str | None = None, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(_BIN / tool), *map(str, arguments)],
            input=input,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run
