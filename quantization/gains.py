"""What each layer takes: the time of kernels, by the layers that they compute."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tcopt.frontends.onnx.nodes.ordering import node_label
from tcopt.frontends.onnx.nodes.subgraphs import used_names
from tcopt.quantization.onnx_graph import OnnxGraph
from tcopt.runtime.profile import Profile

Regions = Mapping[str, str]
"""Nodes by name, and the layer that each goes with."""


def regions_of(graph: OnnxGraph, layers: Collection[str]) -> Regions:
    """The layer that each node goes with: itself, that whose result it uses, or that whose data it
    makes."""
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
    """Microseconds of each layer, with what goes with it; what belongs to none is under `""`.

    A kernel of several layers is all of theirs, in equal parts.
    """
    found = dict.fromkeys(layers, 0.0) | {"": 0.0}
    for call in profile.least().calls():
        own = [name for name in call.nodes if name in layers]
        if not own:
            own = [next(filter(None, (regions.get(name, "") for name in call.nodes)), "")]
        for name in own:
            found[name] += call.us / len(own)
    return found
