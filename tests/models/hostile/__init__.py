"""Malicious models, or models that a broken tool may write.

Each function of `KINDS` returns models by name. A model is a `ModelProto`, its bytes, or a function
that writes the model and its files to a folder and returns its path.
"""

from models.hostile.attributes import attributes
from models.hostile.bombs import bombs, sizes
from models.hostile.building import Hostile, ints, model_of, node
from models.hostile.files import external_files, files
from models.hostile.headers import headers, names
from models.hostile.weights import weights

KINDS = (files, headers, names, weights, external_files, attributes, bombs, sizes)

__all__ = ["KINDS", "Hostile", "bombs", "ints", "model_of", "node"]
