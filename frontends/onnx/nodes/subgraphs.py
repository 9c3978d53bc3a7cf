"""Names that subgraphs of nodes capture."""

from __future__ import annotations

from onnx import AttributeProto, GraphProto, NodeProto

from tcopt.frontends.onnx.model.initializers import graph_weights


def captured_names(body: GraphProto) -> list[str]:
    """Return the distinct names that a subgraph captures, including nested ones."""
    own = {info.name for info in body.input} | {name for name, _ in graph_weights(body)}
    own.update(name for node in body.node for name in node.output)
    names: dict[str, None] = {}
    for node in body.node:
        names.update(dict.fromkeys(name for name in used_names(node) if name not in own))
    names.update(dict.fromkeys(info.name for info in body.output if info.name not in own))
    return list(names)


def used_names(node: NodeProto) -> list[str]:
    """Return the distinct names that a node uses, including captures of its subgraphs."""
    names = dict.fromkeys(name for name in node.input if name)
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            names.update(dict.fromkeys(captured_names(attribute.g)))
    return list(names)
