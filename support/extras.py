"""Optional packages, and the extras of tcopt that install them."""

from __future__ import annotations

from tcopt.support.errors import InputError

EXTRAS = {
    "sqlalchemy": "tune",
    "lightgbm": "tune",
    "psycopg": "tune-postgres",
    "distributed": "pool",
    "pyopencl": "opencl",
    "PIL": "images",
    "torch": "torch",
    "onnxscript": "torch",
    "re2": "text",
    "onnxruntime": "bench",
    "openvino": "bench",
    "matplotlib": "bench",
}
"""Name of the extra by the module that is imported."""


def missing_package(error: BaseException) -> InputError | None:
    """Return the error of an import that fails because an extra is missing; None if it is not."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    module = error.name.partition(".")[0]
    if module not in EXTRAS:
        return None
    return InputError(
        f"the module '{module}' is not installed",
        hint=f"pip install 'tcopt[{EXTRAS[module]}]'",
    )
