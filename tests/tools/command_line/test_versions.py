"""Versions: `--version` of every tool, and the contents of `import tcopt`."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

import tcopt

PYPROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"
SCRIPTS: dict[str, str] = tomllib.loads(PYPROJECT.read_text())["project"]["scripts"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_version_names_the_libraries(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` prints two lines and exits with 0."""
    module, function = SCRIPTS[script].split(":")
    with pytest.raises(SystemExit) as stop:
        getattr(importlib.import_module(module), function)(["--version"])
    assert stop.value.code == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"tcopt {tcopt.__version__} ")
    assert all(name in second for name in ("llvmlite", "LLVM", "xdsl", "onnx"))


def test_dir_lists_what_is_imported_on_first_use() -> None:
    assert dir(tcopt) == sorted(tcopt.__all__)
    for name in ("compile", "load", "Model", "te"):
        assert getattr(tcopt, name) is not None


def test_versions_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    tcopt.show_versions()
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert shown["tcopt"] == tcopt.__version__
    assert {"Python", "system", "CPU", "LLVM", "llvmlite", "xdsl", "onnx", "numpy"} <= shown.keys()
