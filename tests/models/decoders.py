"""Random decoders with the operators that exporters of language models write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

MICROSOFT = "com.microsoft"


@dataclass
class Decoder:
    """A decoder with 4-bit weights, a cache of keys and values a layer, and rotary positions.

    Attributes:
        layers, hidden, inner, heads, groups, words: sizes of the network.
        positions: number of positions that have cosines and sines.
        last_only: whether the result is the logits of the last position only.
    """

    layers: int = 2
    hidden: int = 64
    inner: int = 96
    heads: int = 4
    groups: int = 2
    words: int = 128
    positions: int = 64
    last_only: bool = False
    _rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    _nodes: list[NodeProto] = field(default_factory=list[NodeProto])
    _weights: list[TensorProto] = field(default_factory=list[TensorProto])

    @property
    def size(self) -> int:
        """Number of elements of a head."""
        return self.hidden // self.heads

    @property
    def states(self) -> dict[str, str]:
        """The output that is the next value of each cache."""
        return {
            f"past_key_values.{layer}.{part}": f"present.{layer}.{part}"
            for layer in range(self.layers)
            for part in ("key", "value")
        }

    def model(self) -> ModelProto:
        """Return the model."""
        self._lengths()
        self._weight("embedding", 1.0, self.words, self.hidden)
        angles = np.outer(np.arange(self.positions), 10.0 ** -np.linspace(0, 3, self.size // 2))
        self._constant("cosines", np.cos(angles).astype(np.float32))
        self._constant("sines", np.sin(angles).astype(np.float32))
        skip = self._node("Gather", ["embedding", "input_ids"], "embedded")
        x = self._node("SimplifiedLayerNormalization", [skip, self._scale()], "first", axis=-1)
        for layer in range(self.layers):
            x, skip = self._add(x, skip, self._attention(layer, x), f"{layer}.middle")
            x, skip = self._add(x, skip, self._feed_forward(layer, x), f"{layer}.end")
        if self.last_only:
            self._constant("last", np.array([-1]))
            x = self._node("Gather", [x, "last"], "last_row", axis=1)
        self._product(x, "logits", self.hidden, self.words)
        graph = helper.make_graph(
            self._nodes, "decoder", self._inputs(), self._outputs(), self._weights
        )
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def _inputs(self) -> list[ValueInfoProto]:
        lengths = {"input_ids": "sequence_length", "position_ids": "sequence_length"}
        lengths["attention_mask"] = "total_sequence_length"
        ids = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", length])
            for name, length in lengths.items()
        ]
        return [*ids, *(self._cache(name, "past_sequence_length") for name in self.states)]

    def _outputs(self) -> list[ValueInfoProto]:
        rows = 1 if self.last_only else "sequence_length"
        shape = ["batch", rows, self.words]
        logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)
        caches = self.states.values()
        return [logits, *(self._cache(name, "total_sequence_length") for name in caches)]

    def _cache(self, name: str, length: str) -> ValueInfoProto:
        shape = ["batch", self.groups, length, self.size]
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    def _lengths(self) -> None:
        """Compute the lengths of sequences from the mask."""
        self._constant("one", np.array([1]))
        self._constant("axis_one", np.array(1))
        self._node("ReduceSum", ["attention_mask", "one"], "counts", keepdims=0)
        self._node("Sub", ["counts", "one"], "ends")
        self._node("Cast", ["ends"], "seqlens_k", to=TensorProto.INT32)
        self._node("Shape", ["attention_mask"], "mask_shape")
        self._node("Gather", ["mask_shape", "axis_one"], "mask_length", axis=0)
        self._node("Cast", ["mask_length"], "total", to=TensorProto.INT32)

    def _attention(self, layer: int, x: str) -> str:
        width = self.groups * self.size
        q = self._product(x, f"{layer}.q", self.hidden, self.hidden)
        k, v = (self._product(x, f"{layer}.{part}", self.hidden, width) for part in "kv")
        tables = ["position_ids", "cosines", "sines"]
        q = self._node("RotaryEmbedding", [q, *tables], f"{layer}.turned_q", domain=MICROSOFT)
        k = self._node("RotaryEmbedding", [k, *tables], f"{layer}.turned_k", domain=MICROSOFT)
        past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        attended = f"{layer}.attended"
        self._nodes.append(
            helper.make_node(
                "GroupQueryAttention",
                [q, k, v, *past, "seqlens_k", "total"],
                [attended, *(self.states[name] for name in past)],
                name=attended,
                domain=MICROSOFT,
                num_heads=self.heads,
                kv_num_heads=self.groups,
            )
        )
        return self._product(attended, f"{layer}.o", self.hidden, self.hidden)

    def _feed_forward(self, layer: int, x: str) -> str:
        gate, up = (
            self._product(x, f"{layer}.{part}", self.hidden, self.inner) for part in ("gate", "up")
        )
        switch = self._node("Sigmoid", [gate], f"{layer}.switch")
        active = self._node("Mul", [gate, switch], f"{layer}.active")
        both = self._node("Mul", [active, up], f"{layer}.both")
        return self._product(both, f"{layer}.down", self.inner, self.hidden)

    def _add(self, x: str, skip: str, y: str, name: str) -> tuple[str, str]:
        """Add to the residual stream; return its norm, and the stream."""
        results = [name, "", "", f"{name}.sum"]
        self._nodes.append(
            helper.make_node(
                "SkipSimplifiedLayerNormalization",
                [skip, y, self._scale()],
                results,
                name=name,
                domain=MICROSOFT,
                epsilon=1e-6,
            )
        )
        return name, results[3]

    def _product(self, x: str, name: str, rows: int, columns: int) -> str:
        """Multiply by a random matrix of 4 bits an element, in blocks of 32."""
        blocks = -(-rows // 32)
        codes = self._rng.integers(0, 256, (columns, blocks, 16), dtype=np.uint8)
        scales = self._rng.uniform(0.5, 1, columns * blocks) / np.sqrt(12 * rows)
        self._constant(f"{name}.codes", codes)
        self._constant(f"{name}.scales", scales.astype(np.float32))
        sizes = {"K": rows, "N": columns, "bits": 4, "block_size": 32}
        operands = [x, f"{name}.codes", f"{name}.scales"]
        return self._node("MatMulNBits", operands, name, domain=MICROSOFT, **sizes)

    def _scale(self) -> str:
        name = f"scale.{len(self._weights)}"
        self._constant(name, self._rng.uniform(0.8, 1.2, self.hidden).astype(np.float32))
        return name

    def _weight(self, name: str, deviation: float, *shape: int) -> None:
        values = self._rng.standard_normal(shape) * deviation
        self._constant(name, values.astype(np.float32))

    def _constant(self, name: str, array: np.ndarray) -> None:
        self._weights.append(numpy_helper.from_array(array, name))

    def _node(self, op_type: str, inputs: Sequence[str], result: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(op_type, inputs, [result], name=result, **attributes))
        return result
