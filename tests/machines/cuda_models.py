"""Small models for CUDA devices."""

from __future__ import annotations

from functools import cache
from tempfile import NamedTemporaryFile

import onnx.parser

import tcopt

HEAD = '<ir_version: 10, opset_import: ["" : 21]>'


@cache
def _compiled(text: str) -> tcopt.Model:
    return tcopt.compile(onnx.parser.parse_model(f"{HEAD} f {text}"), "cuda:sm_86")


def unused_model(text: str) -> tcopt.Model:
    """Return a model, compiled once for each text, that no device has run."""
    with NamedTemporaryFile(suffix=".tcm") as file:
        _compiled(text).save(file.name)
        return tcopt.load(file.name)
