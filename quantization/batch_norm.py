"""Folding of batch normalisation into the weights of the preceding convolution."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from tcopt.quantization.onnx_graph import OnnxGraph, attributes_of, is_standard
from tcopt.quantization.patterns import OnnxPattern, only_user


class FoldBatchNorm(OnnxPattern):
    """Scale the weights of a convolution instead of its results.

        y = BatchNormalization(Conv(x, w), scale, bias, mean, variance)
    ->
        y = Conv(x, w * f, bias - mean * f)    with f = scale / sqrt(variance + epsilon)
    """

    def match_and_rewrite(self, graph: OnnxGraph, node: NodeProto) -> bool:
        if not is_standard(node, "Conv") or node.input[1] not in graph.constants:
            return False
        norm = only_user(graph, node.output[0])
        if norm is None or not is_standard(norm, "BatchNormalization"):
            return False
        if norm.input[0] != node.output[0] or len([n for n in norm.output if n]) != 1:
            return False
        given = [graph.array(name) for name in norm.input[1:5]]
        own = graph.array(node.input[2]) if len(node.input) > 2 and node.input[2] else None
        weights = graph.array(node.input[1])
        if weights is None or any(value is None for value in given):
            return False
        if own is None and len(node.input) > 2 and node.input[2]:
            return False
        scale, bias, mean, variance = (np.asarray(v, np.float64) for v in given if v is not None)
        factor = scale / np.sqrt(variance + attributes_of(norm).get("epsilon", 1e-5))
        dtype = weights.dtype
        column = factor.reshape(-1, *[1] * (weights.ndim - 1))
        shift = bias + ((0.0 if own is None else own.astype(np.float64)) - mean) * factor
        graph.set_constant(node, 1, (weights * column).astype(dtype))
        name = graph.add_constant(f"{norm.input[2]}_folded", shift.astype(dtype))
        del node.input[2:]
        node.input.append(name)
        node.output[0] = norm.output[0]
        graph.graph.node.remove(norm)
        graph.refresh()
        return True
