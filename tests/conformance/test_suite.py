"""A sample of ONNX's backend suite, and the operators that were changed last; a few on devices.

`make conformance` and `make conformance-devices` run all of it, and `make nightly` with it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from conformance.cases import passing_cases, run_case, set_home
from conformance.deviations import works_on_devices
from machines.opencl_device import needs_device
from tcopt.frontends.onnx.context.registry import HANDLERS

_PART = 40
"""One case in this many always runs, chosen by name."""

_DEVICE_PART = 500
"""One case in this many runs on each device."""

_ROOT = Path(__file__).resolve().parents[2]


def _changed_operators() -> set[str]:
    """Operators whose handlers differ from the commit before the last one."""
    command = ["git", "diff", "--name-only", "HEAD~1", "--", "frontends/onnx/handlers"]
    changed = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    modules = {Path(file).stem for file in changed.stdout.split()}
    return {
        operator
        for (operator, _), entry in HANDLERS.items()
        if entry.run.__module__.rpartition(".")[2] in modules
    }


def _chosen() -> list[str]:
    stems = tuple(f"test_{operator.lower()}" for operator in _changed_operators())
    return [
        name
        for name in passing_cases()
        if sum(name.encode()) % _PART == 1 or name.startswith(stems or "none")
    ]


@pytest.fixture(autouse=True, scope="module")
def _home(tmp_path_factory: pytest.TempPathFactory) -> None:
    set_home(tmp_path_factory.mktemp("onnx"))


def _on_devices() -> list[str]:
    names = [name for name in passing_cases() if works_on_devices(name)]
    return names[400::_DEVICE_PART]


@needs_device
@pytest.mark.parametrize("name", _on_devices())
def test_case_on_opencl(name: str) -> None:
    assert run_case(name, "opencl") is None


@pytest.mark.parametrize("name", _on_devices())
def test_case_as_executed_ptx(name: str) -> None:
    assert run_case(name, "cuda:sm_80") is None


@pytest.mark.parametrize("name", _chosen())
def test_case(name: str) -> None:
    assert run_case(name) is None
