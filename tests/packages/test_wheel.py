"""The wheel and the source distribution contain everything, and work outside of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "src")
IGNORED = shutil.ignore_patterns("__pycache__", "*.egg-info")
PROGRAM = """
import sys
from importlib.metadata import entry_points
from pathlib import Path
import numpy as np
import onnx.parser
import tcopt

assert Path(tcopt.__file__).is_relative_to(sys.prefix), tcopt.__file__
text = '''<ir_version: 10, opset_import: ["" : 21]>
layer (float[n, 40] x) => (float[n, 40] y) { y = Softmax(x) }'''
model = tcopt.compile(onnx.parser.parse_model(text), dims={"n": (1, 64)}, cache=False)
model.save("layer.tcm")
x = np.ones((50, 40), np.float32)
(y,) = tcopt.load("layer.tcm").run({"x": x})
np.testing.assert_allclose(y, x / 40, rtol=1e-6)
assert "tcopt" in entry_points(group="torch_dynamo_backends").names
tcopt.show_versions()
"""

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        int(version("setuptools").partition(".")[0]) < 77,
        reason="building needs setuptools 77 or newer",
    ),
]


def run(command: Sequence[str | Path], folder: Path) -> str:
    """Run a command without the checkout on the path, and return its output."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(kind: str, folder: Path, source: Path) -> Path:
    """Build a distribution (`wheel` or `sdist`) from sources without network."""
    folder.mkdir()
    code = f"from setuptools import build_meta; build_meta.build_{kind}({str(folder)!r})"
    run([sys.executable, "-c", code], source)
    (found,) = folder.iterdir()
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution, and the wheel from it."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "source").mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / "source" / name, ignore=IGNORED)
        else:
            shutil.copy(ROOT / name, folder / "source")
    archive = build("sdist", folder / "sdist", folder / "source")
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return build("wheel", folder / "wheel", unpacked)


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    files = run(["git", "ls-files"], ROOT).splitlines()
    folders = {link.resolve().name: link.name for link in (ROOT / "src/tcopt").iterdir()}
    expected = {
        "/".join(["tcopt", folders[folder], *rest])
        for folder, *rest in (path.split("/") for path in files)
        if folder in folders and rest
    }
    names = set(zipfile.ZipFile(wheel).namelist())
    assert expected <= names, sorted(expected - names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_installed_wheel_runs_models(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    run([sys.executable, "-m", "venv", "--without-pip", home], tmp_path)
    paths = {"base": str(home), "platbase": str(home)}
    packages = Path(sysconfig.get_path("purelib", "venv", paths))
    # A folder of a .pth file is only searched: the editable install in it has no effect.
    parents = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "parent.pth").write_text("\n".join(parents))
    options = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "--python", home / "bin/python", "install", *options, wheel]
    run(pip, tmp_path)
    run([home / "bin/python", "-c", PROGRAM], tmp_path)
    assert run([home / "bin/tcopt", "--version"], tmp_path).startswith("tcopt ")
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert all((home / "bin" / name).is_file() for name in scripts)
