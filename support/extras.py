"""Packages that only parts of tcopt need, by the extras that install them."""

from __future__ import annotations

from tcopt.support.errors import InputError

EXTRAS = {
    "sqlalchemy": "tune",
    "lightgbm": "tune",
    "psycopg": "tune-postgres",
    "distributed": "pool",
    "pyopencl": "opencl",
    "PIL": "images",
    "re2": "text",
    "onnxruntime": "bench",
    "openvino": "bench",
    "matplotlib": "bench",
}
"""By the name of the module that is imported."""


def missing_package(error: BaseException) -> InputError | None:
    """The error of an import that fails for want of an extra; None if it fails otherwise."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    module = error.name.partition(".")[0]
    if module not in EXTRAS:
        return None
    return InputError(
        f"the package of the module '{module}' is not installed",
        hint=f"pip install 'tcopt[{EXTRAS[module]}]'",
    )
