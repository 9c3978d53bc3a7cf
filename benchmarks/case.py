"""A benchmark case: a model to measure, its name and its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx import ModelProto


@dataclass(frozen=True)
class Case:
    """One model to measure.

    Attributes:
        name: unique name, used in the results.
        build: builds the ONNX model.
        what: short description.
        options: keyword arguments of `tcopt.compile` for the case.
    """

    name: str
    build: Callable[[], ModelProto]
    what: str
    options: Mapping[str, Any] = field(default_factory=dict)
