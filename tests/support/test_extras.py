"""The error for a missing optional package names the extra that provides it."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tcopt.support.errors import InputError
from tcopt.support.extras import EXTRAS, missing_package

ROOT = Path(__file__).resolve().parents[2]
_DISTRIBUTIONS = {"PIL": "pillow", "re2": "google-re2"}


def test_the_table_is_that_of_the_project():
    facts = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = facts["project"]["optional-dependencies"]
    for module, extra in EXTRAS.items():
        name = _DISTRIBUTIONS.get(module, module)
        assert any(entry.startswith(name) for entry in extras[extra]), module
    named = {_DISTRIBUTIONS.get(module, module) for module in EXTRAS}
    entries = [e for extra, given in extras.items() if extra != "dev" for e in given]
    assert all(any(entry.startswith(name) for name in named) for entry in entries)


@pytest.mark.parametrize("module", EXTRAS)
def test_a_missing_package_is_named(module: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(module)
    error = missing_package(caught.value)
    assert isinstance(error, InputError) and f"[{EXTRAS[module]}]" in (error.hint or "")


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize(
    "program",
    [
        "import tcopt\ntry: tcopt.tune\nexcept tcopt.support.errors.InputError as e: print(e)",
        "from tcopt.tools.tcopt_tune import main\nsys.stderr = sys.stdout\nmain(['m.onnx'])",
    ],
    ids=["api", "tool"],
)
def test_tuning_without_its_extra(program: str):
    blocked = f"import sys\nsys.modules['sqlalchemy'] = None\n{program}"
    done = subprocess.run(
        [sys.executable, "-c", blocked], capture_output=True, text=True, check=True, cwd="/"
    )
    assert "tcopt[tune]" in done.stdout and "internal error" not in done.stdout


def test_other_imports_fail_as_they_are():
    assert missing_package(ModuleNotFoundError("no", name="tcopt.nothing")) is None
    assert missing_package(ImportError("no")) is None
