"""Topological order of nodes."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Container, Sequence

from onnx import NodeProto

from tcopt.frontends.onnx.nodes.subgraphs import used_names

Report = Callable[[NodeProto, str], None]
"""Callback that receives a node and a message about an error in the model."""


def node_label(node: NodeProto) -> str:
    """Return the label of a node in messages: its name, or its operator and output."""
    if node.name:
        return node.name
    output = next((name for name in node.output if name), None)
    return f"{node.op_type}:{output}" if output else node.op_type


def in_order(
    nodes: Sequence[NodeProto], available: Container[str], report: Report
) -> tuple[list[NodeProto], list[NodeProto]]:
    """Sort nodes topologically; the order of files that are already sorted is preserved.

    Args:
        available: names that are defined before any node: inputs and weights.
        report: receives names with several definitions or none, and a node of a cycle.

    Returns:
        The sorted nodes, and those that are on a cycle or depend on one.
    """
    producer = _producers(nodes, available, report)
    waits = [0] * len(nodes)
    users: dict[int, list[int]] = defaultdict(list)
    for index, node in enumerate(nodes):
        for name in used_names(node):
            source = producer.get(name)
            if source is not None:
                waits[index] += 1
                users[source].append(index)
            elif name not in available:
                report(node, f"the value {name!r} is used but nothing defines it")
    if all(source < user for source, found in users.items() for user in found):
        return list(nodes), []
    ready = deque(index for index, count in enumerate(waits) if not count)
    order: list[int] = []
    while ready:
        index = ready.popleft()
        order.append(index)
        for user in users[index]:
            waits[user] -= 1
            if not waits[user]:
                ready.append(user)
    stuck = [index for index, count in enumerate(waits) if count]
    if stuck:
        culprit = _on_cycle(nodes, producer, set(stuck))
        report(nodes[culprit], "nodes form a cycle")
    return [nodes[index] for index in order], [nodes[index] for index in stuck]


def _producers(
    nodes: Sequence[NodeProto], available: Container[str], report: Report
) -> dict[str, int]:
    """Return the index of the node that defines each name."""
    producer: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in producer or name in available:
                report(node, f"the value {name!r} is defined twice")
            producer.setdefault(name, index)
    return producer


def _on_cycle(nodes: Sequence[NodeProto], producer: dict[str, int], stuck: set[int]) -> int:
    """Return a node on a cycle, by following producers among the stuck nodes."""
    seen: set[int] = set()
    current = min(stuck)
    while current not in seen:
        seen.add(current)
        sources = (producer.get(name, -1) for name in used_names(nodes[current]))
        current = next(source for source in sources if source in stuck)
    return current
