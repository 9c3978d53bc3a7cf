"""Random language models in the form that onnxruntime-genai's model builder writes.

The layers are those of Llama and Qwen: grouped attention with rotary embedding, a gated product,
RMS normalisation, and weights of 4 bits in blocks. The cache of keys and values is an input and an
output of each layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, TensorProto

from tcopt.frontends.onnx.building.network import Network

_CONTRIB = "com.microsoft"


@dataclass(frozen=True)
class DecoderShape:
    """Sizes of a decoder.

    Attributes:
        layers: number of layers.
        width: elements of a token's representation.
        heads: query heads.
        cached_heads: heads of keys and values; a divisor of `heads`.
        inner: width of the gated product.
        words: number of tokens in the vocabulary.
        context: maximum number of tokens of a sequence.
        block: weights that share a scale.
        level: `accuracy_level` of MatMulNBits: 0 for float32 sums, 4 for activations of 8 bits.
    """

    layers: int = 2
    width: int = 64
    heads: int = 4
    cached_heads: int = 2
    inner: int = 128
    words: int = 256
    context: int = 256
    block: int = 32
    level: int = 0

    @property
    def head(self) -> int:
        """Elements of a head."""
        return self.width // self.heads


def random_decoder(shape: DecoderShape, seed: int = 0) -> ModelProto:
    """Return a decoder with random weights.

    Its inputs are `input_ids` [batch_size, sequence_length], `attention_mask` [batch_size,
    total_sequence_length] and `past_key_values.N.key` and `.value` [batch_size, cached heads,
    past_sequence_length, head]; its outputs are `logits` [batch_size, sequence_length, words] and
    `present.N.key` and `.value`.
    """
    return _Decoder(shape, seed).build()


class _Decoder:
    def __init__(self, shape: DecoderShape, seed: int):
        self.shape = shape
        self.net = Network("decoder", seed=seed, opset=21)
        self.outputs: dict[str, list[int | str]] = {}

    def build(self) -> ModelProto:
        net, shape = self.net, self.shape
        ids = net.input("input_ids", ["batch_size", "sequence_length"], TensorProto.INT64)
        net.input("attention_mask", ["batch_size", "total_sequence_length"], TensorProto.INT64)
        self.outputs["logits"] = ["batch_size", "sequence_length", shape.words]
        self.past, self.total = self._lengths()
        self.tables = self._rotations()
        x = net.add("Gather", net.normal([shape.words, shape.width], 0.5), ids)
        h = net.add("SimplifiedLayerNormalization", x, self._ones(), axis=-1, epsilon=1e-6)
        for layer in range(shape.layers):
            x, h = self._add_norm(x, self._attention(h, layer))
            x, h = self._add_norm(x, self._gated(h))
        logits = self._product(h, shape.width, shape.words)
        net.add_named("Identity", ["logits"], logits)
        return net.model(**self.outputs)

    def _lengths(self) -> tuple[str, str]:
        """Return the index of each sequence's last token, and the length of the longest."""
        net, mask = self.net, "attention_mask"
        count = net.add("ReduceSum", mask, net.ints(1), keepdims=0)
        last = net.add("Cast", net.add("Sub", count, net.ints(1)), to=TensorProto.INT32)
        length = net.add("Gather", net.add("Shape", mask), net.weight(np.array(1, np.int64)))
        return last, net.add("Cast", length, to=TensorProto.INT32)

    def _rotations(self) -> tuple[str, str]:
        """Return the cosines and sines of rotary embedding, [context, head / 2]."""
        exponents = np.arange(0, self.shape.head, 2) / self.shape.head
        angles = np.outer(np.arange(self.shape.context), 1e4**-exponents)
        cos, sin = (self.net.weight(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
        return cos, sin

    def _attention(self, h: str, layer: int) -> str:
        net, shape = self.net, self.shape
        cached = shape.cached_heads * shape.head
        qkv = self._product(h, shape.width, shape.width + 2 * cached)
        qkv = net.add("Add", qkv, net.normal([shape.width + 2 * cached], 0.1))
        dims = ["batch_size", shape.cached_heads, "{}_sequence_length", shape.head]
        pasts, presents = (
            [f"{when}.{layer}.{kind}" for kind in ("key", "value")]
            for when in ("past_key_values", "present")
        )
        for past, present in zip(pasts, presents, strict=True):
            net.input(past, [d.format("past") if isinstance(d, str) else d for d in dims])
            self.outputs[present] = [d.format("total") if isinstance(d, str) else d for d in dims]
        result = f"layer_{layer}_attention"
        net.add_named(
            "GroupQueryAttention",
            [result, *presents],
            *(qkv, "", "", *pasts, self.past, self.total, *self.tables),
            domain=_CONTRIB,
            num_heads=shape.heads,
            kv_num_heads=shape.cached_heads,
            do_rotary=1,
        )
        return self._product(result, shape.width, shape.width)

    def _gated(self, h: str) -> str:
        net, shape = self.net, self.shape
        gate, up = (self._product(h, shape.width, shape.inner) for _ in range(2))
        silu = net.add("Mul", gate, net.add("Sigmoid", gate))
        return self._product(net.add("Mul", silu, up), shape.inner, shape.width)

    def _add_norm(self, x: str, change: str) -> tuple[str, str]:
        """Return the sum and its normalisation."""
        name = f"norm_{len(self.net.nodes)}"
        results = [f"{name}_out", "", "", f"{name}_sum"]
        self.net.add_named(
            "SkipSimplifiedLayerNormalization",
            results,
            *(x, change, self._ones()),
            domain=_CONTRIB,
            epsilon=1e-6,
        )
        return results[3], results[0]

    def _product(self, x: str, inner: int, columns: int) -> str:
        """Multiply by a random matrix of 4-bit weights that keeps the mean square."""
        rng, block = self.net.rng, self.shape.block
        blocks = -(-inner // block)
        bits = rng.integers(0, 256, (columns, blocks, block // 2), dtype=np.uint8)
        # Weights are multiples of the scale from -8 to 7, with a mean square of 21.5.
        scales = rng.uniform(0.9, 1.1, columns * blocks) * (21.5 * inner) ** -0.5
        return self.net.add(
            "MatMulNBits",
            *(x, self.net.weight(bits), self.net.weight(scales.astype(np.float32))),
            domain=_CONTRIB,
            K=inner,
            N=columns,
            bits=4,
            block_size=block,
            accuracy_level=self.shape.level,
        )

    def _ones(self) -> str:
        return self.net.weight(np.ones(self.shape.width, np.float32))
