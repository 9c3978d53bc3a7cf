"""Versions of the compiler and of everything that its results depend on, for reports."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, packages_distributions, version

_REQUIRED = ("xdsl", "llvmlite", "numpy", "ml_dtypes", "onnx", "rich")


def versions() -> dict[str, str]:
    """Return versions by name: tcopt, Python, LLVM, the system, the CPU, and installed packages.

    Optional packages that are not installed are omitted.
    """
    import llvmlite.binding as llvm

    import tcopt
    from tcopt.backends.llvm.machine.host import host_target
    from tcopt.support.extras import EXTRAS

    host = host_target()
    found = {
        "tcopt": tcopt.__version__,
        "Python": platform.python_version(),
        "system": platform.platform(),
        "CPU": f"{host.cpu}, {host.vector_bits}-bit vectors, {host.cores} cores",
        "LLVM": ".".join(map(str, llvm.llvm_version_info)),
    }
    found.update((name, version(name)) for name in _REQUIRED)
    distributions = packages_distributions()
    for module in EXTRAS:
        for name in distributions.get(module, ())[:1]:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                continue
    return found


def show_versions() -> None:
    """Print the versions that a report of an error should name, one in a line."""
    found = versions()
    width = max(map(len, found))
    for name, value in found.items():
        print(f"{name:{width}}  {value}")
