"""The ONNX frontend: models in, graph-level modules out."""

from tcopt.frontends.onnx.errors import MissingShapesError, MissingValuesError
from tcopt.frontends.onnx.examples import example_models, find_example_model
from tcopt.frontends.onnx.importer import import_model
from tcopt.frontends.onnx.random_weights import randomize_weights

__all__ = [
    "MissingShapesError",
    "MissingValuesError",
    "example_models",
    "find_example_model",
    "import_model",
    "randomize_weights",
]
