"""Rewrite patterns on ONNX models, applied before layers are quantised."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from onnx import NodeProto

from tcopt.quantization.onnx_graph import OnnxGraph

_MOST_SWEEPS = 1000


class OnnxPattern(ABC):
    """A rewrite pattern rooted at a node."""

    @abstractmethod
    def match_and_rewrite(self, graph: OnnxGraph, node: NodeProto) -> bool:
        """Rewrite the node if the pattern matches; return whether it did.

        The same match must not occur again afterwards.
        """


def rewrite(graph: OnnxGraph, patterns: Sequence[OnnxPattern]) -> int:
    """Apply patterns until none matches; return the number of rewrites."""
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
    """Return the node that is the only user of a value; None if there are others."""
    users = graph.users.get(name, [])
    if len(users) != 1 or graph.is_output(name) or list(users[0].input).count(name) != 1:
        return None
    return users[0]
