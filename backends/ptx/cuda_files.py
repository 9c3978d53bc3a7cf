"""Locates NVIDIA's tools: ptxas, and libdevice, the library of device functions.

The search order is: environment variables with the paths of the files, the packages
`nvidia-cuda-nvcc-cu12` and `nvidia-cuda-nvcc` of this Python, `CUDA_HOME`, `PATH`,
`/usr/local/cuda`.
"""

from __future__ import annotations

import os
import shutil
import site
import sys
from collections.abc import Iterator
from pathlib import Path

PTXAS_ENVIRONMENT = "TCOPT_PTXAS"
LIBDEVICE_ENVIRONMENT = "TCOPT_LIBDEVICE"
"""Environment variables with the path of the file itself."""

HINT = "pip install nvidia-cuda-nvcc-cu12, or set CUDA_HOME to a CUDA toolkit"

_LIBDEVICE = Path("nvvm/libdevice/libdevice.10.bc")


def find_ptxas() -> Path | None:
    """Return the path of the PTX assembler, if found."""
    return _find(PTXAS_ENVIRONMENT, Path("bin/ptxas"))


def find_libdevice() -> Path | None:
    """Return the path of the device functions as LLVM bitcode, if found."""
    return _find(LIBDEVICE_ENVIRONMENT, _LIBDEVICE)


def _find(environment: str, name: Path) -> Path | None:
    given = os.environ.get(environment)
    if given:
        return Path(given) if Path(given).is_file() else None
    return next((root / name for root in _toolkits() if (root / name).is_file()), None)


def _toolkits() -> Iterator[Path]:
    """Yield folders that may have the layout of a CUDA toolkit."""
    for folder in dict.fromkeys((*sys.path, *site.getsitepackages())):
        packages = Path(folder) / "nvidia"
        if packages.is_dir():
            yield packages / "cuda_nvcc"
            yield from sorted(packages.glob("cu[0-9]*"), reverse=True)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    found = shutil.which("ptxas")
    if found:
        yield Path(found).resolve().parent.parent
    yield Path("/usr/local/cuda")
