"""Localisation of the first layer whose result differs from another runtime's.

The other runtime runs the model with the results of all nodes as outputs. This compiler's model is
compiled as usual, and its kernels' results are observed and compared in the order of the nodes.
Results of nodes that were folded or fused are not in memory, and are listed as such.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ValueInfoProto
from rich.table import Table

from tcopt.frontends.onnx.nodes.ordering import node_label
from tcopt.frontends.onnx.nodes.subgraphs import used_names
from tcopt.support.data.differences import Accuracy, compare, report
from tcopt.support.data.shape_text import shape_text
from tcopt.support.errors import ImportModelError, InputError, printable
from tcopt.tools.command_line.text_tables import render

Array = NDArray[Any]
_CELL_LENGTH = 60


@dataclass(frozen=True)
class NodeResult:
    """A result of a node: `value` is its name, `inputs` are the names of the node's inputs."""

    node: str
    operator: str
    value: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class LayerAccuracy:
    """The accuracy of a layer's result.

    Attributes:
        accuracy: None if the shape or type differs, or the result is not observed.
        unobserved: the reason why no result can be compared, such as "fused"; otherwise empty.
    """

    layer: NodeResult
    accuracy: Accuracy | None
    unobserved: str = ""

    @property
    def passed(self) -> bool:
        """Whether the result is within the tolerance, or not observed."""
        return bool(self.unobserved) or (self.accuracy is not None and self.accuracy.passed)


@dataclass(frozen=True)
class LayerModel:
    """A model with the results of all its nodes as outputs, for the other runtime.

    Attributes:
        data: the bytes of its file.
        outputs: the names of its outputs, in order.
        produced: the results of each node.
        users: the nodes that use each value, and "" for an output of the model.
    """

    data: bytes
    outputs: list[str]
    produced: dict[str, list[str]]
    users: dict[str, list[str]]


def with_all_results(path: str) -> tuple[LayerModel, list[NodeResult]]:
    """Return a model with the results of all its nodes as outputs, and its layers.

    Raises:
        ImportModelError: the model cannot be decoded.
        InputError: it is too large for one file.
    """
    try:
        model = onnx.load(path)
        typed = onnx.shape_inference.infer_shapes(model)
    except Exception as error:
        raise ImportModelError(f"cannot add outputs to the model: {error}", where=path) from error
    known = {info.name: info for info in typed.graph.value_info}
    own = [info.name for info in model.graph.output]
    produced: dict[str, list[str]] = {}
    users: dict[str, list[str]] = {name: [""] for name in own}
    layers: list[NodeResult] = []
    for node in model.graph.node:
        label, inputs = node_label(node), tuple(name for name in node.input if name)
        for value in used_names(node):
            users.setdefault(value, []).append(label)
        for value in filter(None, node.output):
            produced.setdefault(label, []).append(value)
            info = known.get(value)
            if value not in own and info is not None and not info.type.HasField("tensor_type"):
                continue
            layers.append(NodeResult(label, node.op_type, value, inputs))
            if value not in own:
                model.graph.output.append(info or ValueInfoProto(name=value))
    try:
        data = model.SerializeToString()
    except ValueError as error:
        raise InputError(
            f"'{Path(path).name}' and its weights are too large to compare by layers"
        ) from error
    return LayerModel(data, [info.name for info in model.graph.output], produced, users), layers


def compare_layers(
    layers: Sequence[NodeResult],
    ours: Mapping[str, Array],
    theirs: Mapping[str, Array],
    *,
    computed: Container[str] = (),
    rtol: float,
    atol: float,
) -> list[LayerAccuracy]:
    """Compare each layer, in order.

    Args:
        ours: the observed results.
        computed: the nodes that kernels compute; results of others were folded.
    """
    found: list[LayerAccuracy] = []
    for layer in layers:
        if layer.value not in ours:
            reason = "fused" if layer.node in computed else "no kernel"
            found.append(LayerAccuracy(layer, None, reason))
            continue
        actual, expected = np.asarray(ours[layer.value]), np.asarray(theirs[layer.value])
        accuracy = None
        if actual.shape == expected.shape and actual.dtype == expected.dtype:
            accuracy = compare(layer.value, actual, expected, rtol=rtol, atol=atol)
        found.append(LayerAccuracy(layer, accuracy))
    return found


def layers_report(
    results: Sequence[LayerAccuracy], runtime: str, *, rtol: float, atol: float
) -> str:
    """Return a table of the layers, and a description of the first that differs."""
    table = Table(box=None, pad_edge=False)
    for title in ("layer", "operator", "shape"):
        table.add_column(title, overflow="fold")
    for title in ("max", "mean", "p99", "max/range", "least rtol"):
        table.add_column(title, justify="right")
    table.add_column("")
    for result in results:
        table.add_row(*(printable(text, _CELL_LENGTH) for text in _row(result)))
    lines = [render(table), ""]
    measured = [r.accuracy for r in results if r.accuracy is not None]
    least = max((a.least_rtol for a in measured), default=0.0)
    departed = [result for result in results if not result.passed]
    observed = sum(not result.unobserved for result in results)
    if observed < len(results):
        lines.append(
            f"{observed} of {len(results)} results are observed; other nodes are folded, or fused "
            "with those that use them"
        )
    if not departed:
        lines.append(
            f"all observed results agree with {runtime}'s; the smallest passing rtol is {least:.3g}"
        )
        return "\n".join(lines)
    first = departed[0]
    lines.append(
        f"{len(departed)} of {observed} observed results differ from {runtime}'s, the first is "
        f"that of {first.layer.operator} '{first.layer.node}':"
    )
    if first.accuracy is None:
        lines.append(f"  {first.layer.value} has another shape or type")
    else:
        lines.append(report([first.accuracy], rtol=rtol, atol=atol))
    given = {r.layer.value: r.accuracy for r in results}
    before = [a for name in first.layer.inputs if (a := given.get(name)) is not None]
    if before:
        error = max(a.least_rtol for a in before)
        lines.append(f"  its inputs are within rtol {error:.3g}")
    lines.append(f"the smallest passing rtol for all is {least:.3g}")
    return "\n".join(lines)


def _row(result: LayerAccuracy) -> list[str]:
    layer, accuracy = result.layer, result.accuracy
    if result.unobserved:
        return [layer.node, layer.operator, "", "", "", "", "", "", result.unobserved]
    if accuracy is None:
        return [layer.node, layer.operator, "?", "", "", "", "", "", "another shape or type"]
    part = accuracy.max_abs / accuracy.scale if accuracy.scale else 0.0
    return [
        layer.node,
        layer.operator,
        shape_text(accuracy.shape) or "scalar",
        *(f"{v:.2g}" for v in (accuracy.max_abs, accuracy.mean_abs, accuracy.p99_abs, part)),
        f"{accuracy.least_rtol:.2g}",
        "" if accuracy.passed else "DEPARTS",
    ]
