"""Attribution of kernel times to layers."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tcopt.frontends.onnx.nodes.ordering import node_label
from tcopt.frontends.onnx.nodes.subgraphs import used_names
from tcopt.quantization.onnx_graph import OnnxGraph
from tcopt.runtime.profile import Profile

Regions = Mapping[str, str]
"""Layer that each node is attributed to, by node name."""


def regions_of(graph: OnnxGraph, layers: Collection[str]) -> Regions:
    """Attribute each node to a layer: its own, its producer, or the consumer of its result."""
    region: dict[str, str] = {}
    for node in graph.nodes:
        name = node_label(node)
        if name in layers:
            region[name] = name
            continue
        makers = [graph.producers.get(value) for value in used_names(node)]
        known = [region.get(node_label(maker), "") for maker in makers if maker is not None]
        region[name] = next(filter(None, known), "")
    for node in reversed(graph.nodes):
        name = node_label(node)
        if not region[name]:
            users = [user for value in node.output for user in graph.users.get(value, ())]
            known = [region.get(node_label(user), "") for user in users]
            region[name] = next(filter(None, known), "")
    return region


def layer_times(profile: Profile, regions: Regions, layers: Collection[str]) -> dict[str, float]:
    """Return the microseconds of each layer and the nodes attributed to it; `""` has the rest.

    The time of a kernel that computes several layers is divided equally among them.
    """
    found = dict.fromkeys(layers, 0.0) | {"": 0.0}
    for call in profile.least().calls():
        own = [name for name in call.nodes if name in layers]
        if not own:
            own = [next(filter(None, (regions.get(name, "") for name in call.nodes)), "")]
        for name in own:
            found[name] += call.us / len(own)
    return found
