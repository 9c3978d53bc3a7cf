"""Benchmarks, campaigns and helpers of tests, which pyright does not check: their imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
SCRIPTS = sorted(
    path
    for folder in (TESTS, ROOT / "benchmarks")
    for path in folder.rglob("*.py")
    if not path.name.startswith("test_")
)
CAMPAIGNS = [path for path in SCRIPTS if path.name == "run.py"]
FOLDERS = sorted({path.parent for path in SCRIPTS})


@cache
def _is_defined(module: str, name: str) -> bool:
    return hasattr(import_module(module), name) or find_spec(f"{module}.{name}") is not None


def _unresolved(path: Path) -> Iterator[str]:
    """Yield the missing names that a file imports from the package, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tcopt":
            assert node.module is not None
            if find_spec(node.module) is None:
                yield node.module
                continue
            for alias in node.names:
                if not _is_defined(node.module, alias.name):
                    yield f"{node.module}.{alias.name}"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_names_imported_from_the_package_exist(folder: Path):
    files = [path for path in SCRIPTS if path.parent == folder]
    assert not {path.name: found for path in files if (found := list(_unresolved(path)))}


@pytest.mark.nightly
@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.parent.name)
def test_campaigns_start_from_their_own_folder(path: Path):
    """Modules in a script's folder hide folders of the tests that have the same name."""
    command = [sys.executable, str(path), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
