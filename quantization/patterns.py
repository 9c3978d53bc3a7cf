"""Rewrite patterns on ONNX models: what is done to a model before its layers are quantised."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from onnx import NodeProto

from tcopt.quantization.onnx_graph import OnnxGraph

_MOST_SWEEPS = 1000


class OnnxPattern(ABC):
    """A rewrite of what begins at a node."""

    @abstractmethod
    def match_and_rewrite(self, graph: OnnxGraph, node: NodeProto) -> bool:
        """Rewrite, if the pattern is there; whether it was. Afterwards the same pattern is not
        there any more."""


def rewrite(graph: OnnxGraph, patterns: Sequence[OnnxPattern]) -> int:
    """Run patterns until none is found; how often one was."""
    count = 0
    for _ in range(_MOST_SWEEPS):
        for node in graph.nodes:
            if any(pattern.match_and_rewrite(graph, node) for pattern in patterns):
                count += 1
                break
        else:
            return count
        graph.refresh()
    return count


def only_user(graph: OnnxGraph, name: str) -> NodeProto | None:
    """The one node that uses a value which nothing else needs."""
    users = graph.users.get(name, [])
    if len(users) != 1 or graph.is_output(name) or list(users[0].input).count(name) != 1:
        return None
    return users[0]
