"""tcopt: a deep-learning compiler on xDSL.

    model = tcopt.compile("resnet50.onnx")
    outputs = model.run({"data": x})
    model.save("resnet50.tcm"); model = tcopt.load("resnet50.tcm")

Names are imported on first use, so that `import tcopt` is fast.
"""

import sys
import time

IMPORTED_NS = time.time_ns()
"""Time at which this process imported the package; files that change later are not its code."""

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    # `python -m tcopt...` is to import nothing from the folder it runs in.
    del sys.path[0]

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tcopt.compiler import compile, pipeline
    from tcopt.compiler.versions import show_versions
    from tcopt.dialects.te import api as te
    from tcopt.runtime import Cancellation, Model, Session, load
    from tcopt.runtime.kit.export import export_kit
    from tcopt.schedules import Schedule
    from tcopt.quantization.entry import quantize
    from tcopt.tuner.entry import tune

_HOMES = {
    "compile": "tcopt.compiler",
    "pipeline": "tcopt.compiler",
    "show_versions": "tcopt.compiler.versions",
    "Cancellation": "tcopt.runtime",
    "Model": "tcopt.runtime",
    "Session": "tcopt.runtime",
    "load": "tcopt.runtime",
    "export_kit": "tcopt.runtime.kit.export",
    "Schedule": "tcopt.schedules",
    "quantize": "tcopt.quantization.entry",
    "tune": "tcopt.tuner.entry",
}


def own_definitions(kind: str) -> object:
    """Import or return the package's own definitions of a kind; called by registries."""
    from tcopt.definitions import SCANS

    return SCANS[kind]() if kind in SCANS else None


__all__ = [
    "__version__",
    "Cancellation",
    "Model",
    "Schedule",
    "Session",
    "compile",
    "export_kit",
    "load",
    "pipeline",
    "quantize",
    "show_versions",
    "te",
    "tune",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "te":
        return import_module("tcopt.dialects.te.api")
    if name in _HOMES:
        try:
            return getattr(import_module(_HOMES[name]), name)
        except ModuleNotFoundError as error:
            from tcopt.support.extras import missing_package

            missing = missing_package(error)
            if missing is None:
                raise
            raise missing from error
    raise AttributeError(f"module 'tcopt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
