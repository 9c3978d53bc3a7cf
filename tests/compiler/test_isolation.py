"""Subprocesses import nothing from the current folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import tcopt
from models import convolutional
from tcopt.support.processes import isolated

NAMES = ("json", "numpy", "xdsl", "struct", "queue", "tcopt", "llvmlite", "sitecustomize")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with modules that leave a mark on import and end the process."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in NAMES:
        code = f"open({str(tmp_path / 'mark')!r}, 'a').write({name!r}); raise SystemExit(9)"
        (folder / f"{name}.py").write_text(code)
    return folder


_COMPILE = """
import os, sys
sys.path[:] = [p for p in sys.path if p not in ("", os.getcwd())]
import tcopt
from tcopt.compiler import kernel_builder, workers
made = []
from_bytes = workers.Kernel.from_bytes
sys.path.insert(0, "")
sys.path.insert(1, os.getcwd())
os.environ["PYTHONPATH"] = os.getcwd()
os.environ["PYTHONSTARTUP"] = os.path.join(os.getcwd(), "json.py")
with workers.Workers(1) as group:
    (process,) = group.processes
    try:
        process.ask({})
    except workers.ChildError as error:
        print(error)
"""


def test_workers_import_nothing_from_the_current_folder(hostile):
    done = subprocess.run(
        [sys.executable, "-c", _COMPILE], cwd=hostile, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "KeyError" in done.stdout and not (hostile.parent / "mark").exists()


def test_the_package_of_this_process_is_found(tmp_path):
    """Subprocesses find the package by the path from which this process imported it."""
    root = Path(tcopt.__file__).parent
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "tcopt").symlink_to(root)
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path / "lib")!r})
import os
os.chdir({str(tmp_path / "lib")!r})
import tcopt, subprocess
from tcopt.support.processes.isolated import isolated_command
command = isolated_command("import sys, tcopt.support.errors; print(tcopt.__file__, sys.argv[1:])")
print(subprocess.run([*command, "one"], capture_output=True, text=True, check=True).stdout)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{tmp_path / 'lib' / 'tcopt' / '__init__.py'} ['one']"


def test_the_standard_library_comes_first(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", ["", str(Path.cwd()), str(tmp_path), "relative", *sys.path])
    path = isolated.import_path()
    assert "" not in path and "relative" not in path and str(Path.cwd()) not in path
    library = str(Path(json.__file__).parent.parent)
    assert path.index(library) < path.index(str(tmp_path))


def test_tools_as_modules_import_nothing_from_their_folder(hostile):
    model = hostile / "m.onnx"
    onnx.save(convolutional.residual_net(8, 4), model)
    for name in ("tcopt", "struct", "queue", "json"):
        # Imports that Python makes before the package is loaded cannot be controlled.
        (hostile / f"{name}.py").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "tcopt.tools.tcopt_check", "m.onnx"],
        cwd=hostile,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert not (hostile.parent / "mark").exists()
