"""Short descriptions of a compiled model, for a prompt and for a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Protocol

from tcopt.runtime.specs import TensorSpec


class Described(Protocol):
    """The facts of a model that its descriptions show.

    Attributes:
        name: name of the model, or an empty string.
        target: target that it is compiled for.
        inputs, outputs: names, shapes and types.
    """

    name: str
    target: str
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]


def summary(model: Described) -> str:
    """Return `<Model resnet50 for cpu: "data" float32[1x3] -> "logits" float32[1x10]>`."""
    title = f"Model {model.name}".strip()
    inputs, outputs = (", ".join(map(str, specs)) for specs in (model.inputs, model.outputs))
    return f"<{title} for {model.target}: {inputs or 'no inputs'} -> {outputs or 'no outputs'}>"


def html_summary(model: Described) -> str:
    """Return a table with a row for each input and output."""
    title = f"{model.name or 'Model'} for {model.target}"
    rows = [*_rows("input", model.inputs), *_rows("output", model.outputs)]
    return f"<table><caption>{escape(title)}</caption>{''.join(rows)}</table>"


def _rows(role: str, specs: Sequence[TensorSpec]) -> Iterator[str]:
    for spec in specs:
        kind = str(spec).removeprefix(f'"{spec.name}" ')
        yield f"<tr><th>{role}</th><td>{escape(spec.name)}</td><td>{escape(kind)}</td></tr>"
