"""Text of the option `--version`."""

from __future__ import annotations

import platform
from importlib.metadata import version


def version_text() -> str:
    """Return the version of tcopt, and on a second line those of its libraries."""
    import llvmlite
    from llvmlite import binding

    import tcopt

    llvm = ".".join(map(str, binding.llvm_version_info))
    libraries = ", ".join(f"{name} {version(name)}" for name in ("xdsl", "onnx", "numpy"))
    return (
        f"tcopt {tcopt.__version__} (Python {platform.python_version()})\n"
        f"llvmlite {llvmlite.__version__} (LLVM {llvm}), {libraries}"
    )
