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
from tcopt.support.errors import InputError
from tcopt.support.registries.registration import extensions

pytest_plugins = ["running.selection"]

_BIN = Path(sys.executable).parent
_ENDED: list[str] = []

RunTool = Callable[..., subprocess.CompletedProcess[str]]


def pytest_configure(config: pytest.Config) -> None:
    """Warn once about an unsupported CPU; PoCL's cache is private to this process.

    Processes that write the same PoCL cache crash, and its path is read when the first test looks
    for devices. Kernels are compiled in the test's process, because xdist uses all cores.
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
    """Exclude tests and modules from garbage collection, and collect rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Record how an xdist worker ended, to distinguish a kill from a fault."""
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
    """The kernel cache of this run: shared by all tests and workers, separate from the user's.

    Whole programs are not cached: a test that compiles a model intends to compile.
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
    """Undo what tests register or change in the compiler: otherwise no later test would use the
    cache or workers."""
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
