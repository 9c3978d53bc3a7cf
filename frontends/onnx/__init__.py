"""The ONNX frontend: models in, graph-level modules out.

The names below are imported when they are first used: errors and readers need no importer.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tcopt.frontends.onnx.checking import CheckReport, check_model
    from tcopt.frontends.onnx.errors import MissingShapesError, MissingValuesError
    from tcopt.frontends.onnx.examples import example_models, find_example_model
    from tcopt.frontends.onnx.importer import import_model
    from tcopt.frontends.onnx.random_weights import randomize_weights

_HOMES = {
    "CheckReport": "checking",
    "MissingShapesError": "errors",
    "MissingValuesError": "errors",
    "check_model": "checking",
    "example_models": "examples",
    "find_example_model": "examples",
    "import_model": "importer",
    "randomize_weights": "random_weights",
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
