"""The ONNX front end: imports models as graph-level modules.

The names below are imported lazily: errors and readers do not need the importer.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tcopt.frontends.onnx.building.examples import example_models, find_example_model
    from tcopt.frontends.onnx.building.random_weights import randomize_weights
    from tcopt.frontends.onnx.checking import CheckReport, check_model
    from tcopt.frontends.onnx.importer import import_model
    from tcopt.frontends.onnx.model.errors import MissingShapesError, MissingValuesError

_HOMES = {
    "CheckReport": "checking",
    "MissingShapesError": "model.errors",
    "MissingValuesError": "model.errors",
    "check_model": "checking",
    "example_models": "building.examples",
    "find_example_model": "building.examples",
    "import_model": "importer",
    "randomize_weights": "building.random_weights",
}

__all__ = [
    "CheckReport",
    "MissingShapesError",
    "MissingValuesError",
    "check_model",
    "example_models",
    "find_example_model",
    "import_model",
    "randomize_weights",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
