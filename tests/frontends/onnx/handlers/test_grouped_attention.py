"""Rotary embeddings and grouped-query attention, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from models.checks import check_node, node_model
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import UnsupportedError

DOMAIN = "com.microsoft"
BATCH, HEADS, GROUPS, SIZE = 2, 4, 2, 16


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def caches(rng: np.random.Generator, half: int) -> tuple[np.ndarray, np.ndarray]:
    angles = rng.uniform(0, 6, (16, half))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved: int, rng):
    places = rng.integers(0, 16, (BATCH, 5))
    options = {"domain": DOMAIN, "interleaved": interleaved}
    for x in (normal(rng, BATCH, 5, HEADS * SIZE), normal(rng, BATCH, HEADS, 5, SIZE)):
        check_node("RotaryEmbedding", x, places, *caches(rng, SIZE // 2), **options)
        check_node("RotaryEmbedding", x, np.array([3]), *caches(rng, SIZE // 2), **options)
    part = {"rotary_embedding_dim": 4, "num_heads": HEADS, **options}
    x = normal(rng, BATCH, 5, HEADS * SIZE)
    check_node("RotaryEmbedding", x, places, *caches(rng, 2), **part)


def operands(rng: np.random.Generator, length: int, earlier: int, room: int) -> list:
    """Feeds of a step with `length` new tokens after `earlier` ones, in a cache with spare room."""
    sizes = (HEADS, GROUPS, GROUPS)
    parts = [normal(rng, BATCH, length, n * SIZE) for n in sizes]
    past = [normal(rng, BATCH, GROUPS, room, SIZE) for _ in range(2)]
    for each in past:
        each[:, :, earlier:] = 0
    total = length + earlier
    lengths = np.full(BATCH, total - 1, np.int32)
    return [*parts, *past, lengths, np.array(total, np.int32)]


def check(inputs: list, **options) -> None:
    attributes = {"num_heads": HEADS, "kv_num_heads": GROUPS, "domain": DOMAIN, "outputs": 3}
    check_node("GroupQueryAttention", *inputs, constants=[6], **attributes, **options)


@pytest.mark.parametrize(
    ("length", "earlier", "room"), [(5, 0, 0), (1, 6, 6), (1, 4, 9), (5, 0, 9)]
)
def test_group_query_attention(length: int, earlier: int, room: int, rng):
    inputs = operands(rng, length, earlier, room)
    check(inputs)
    check(inputs, softcap=5.0, scale=0.5)
    check(inputs, local_window_size=3)
    check([*inputs, *caches(rng, SIZE // 2)], do_rotary=1)
    check([*inputs, *caches(rng, SIZE // 2)], do_rotary=1, rotary_interleaved=1)


def test_packed_projections(rng):
    inputs = operands(rng, 5, 0, 0)
    inputs[:3] = [np.concatenate(inputs[:3], axis=2), None, None]
    check([*inputs, *caches(rng, SIZE // 2)], do_rotary=1)


def test_bias_of_scores(rng):
    inputs = [*operands(rng, 1, 6, 6), None, None, None]
    check([*inputs, normal(rng, BATCH, HEADS, 1, 7)])


@pytest.mark.parametrize("options", [{"smooth_softmax": 1}, {"qk_output": 1}])
def test_what_is_refused(options: dict, rng):
    attributes = {"num_heads": HEADS, "kv_num_heads": GROUPS, "domain": DOMAIN, "outputs": 3}
    inputs = operands(rng, 1, 6, 6)
    model = node_model("GroupQueryAttention", inputs, constants=[6], **attributes, **options)
    with pytest.raises(UnsupportedError) as caught:
        import_model(model)
    assert caught.value.where == "node" and caught.value.hint
