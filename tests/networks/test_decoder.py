"""A decoder that generates tokens: one program for all lengths, with caches that grow in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tcopt
from models.checks import Reference, assert_close, reference_of
from models.decoders import Decoder

Array = np.ndarray[Any, Any]
PREFILL, TOKENS = 7, 30
DIMS = {
    "batch": 1,
    "past_sequence_length": (0, 48),
    "sequence_length": (1, 16),
    "total_sequence_length": "past_sequence_length + sequence_length",
}


class Generation:
    """Feeds of the steps that generate tokens.

    Attributes:
        ids: the tokens of the next step.
        past: number of tokens before them.
    """

    def __init__(self, ids: Array):
        self.ids, self.past = ids, 0

    def feeds(self) -> dict[str, Array]:
        length = self.ids.shape[1]
        return {
            "input_ids": self.ids,
            "position_ids": np.arange(self.past, self.past + length)[None],
            "attention_mask": np.ones((1, self.past + length), np.int64),
        }

    def take(self, logits: Array) -> None:
        self.past += self.ids.shape[1]
        self.ids = logits[:, -1].argmax(axis=-1)[:, None]


class ReferenceSession:
    """A session of onnxruntime that keeps the caches."""

    def __init__(self, decoder: Decoder, run: Reference):
        self._run, self._states = run, decoder.states
        shape = (1, decoder.groups, 0, decoder.size)
        self.caches = {name: np.zeros(shape, np.float32) for name in self._states}

    def run(self, feeds: Mapping[str, Array]) -> Array:
        logits, *caches = self._run({**feeds, **self.caches})
        self.caches = dict(zip(self._states, caches, strict=True))
        return logits


@pytest.mark.parametrize("last_only", [False, True])
def test_tokens_equal_those_of_onnxruntime(last_only: bool):
    decoder = Decoder(last_only=last_only)
    model = decoder.model()
    steps: list[str] = []
    compiled = tcopt.compile(
        model,
        dims=DIMS,
        donate=decoder.states,
        workers=0,
        cache=False,
        progress=lambda name, *_: steps.append(name),
    )
    in_place = [spec.in_place_of for spec in compiled.program.outputs]
    assert in_place == ["", *decoder.states]
    session = tcopt.Session(compiled, decoder.states)
    reference = ReferenceSession(decoder, reference_of(model))
    generation = Generation(np.random.default_rng(1).integers(0, decoder.words, (1, PREFILL)))
    chosen: set[int] = set()
    for _ in range(1 + TOKENS):
        feeds = generation.feeds()
        (logits,) = session.run(feeds)
        wanted = reference.run(feeds)
        assert_close(logits, wanted, 1e-4)
        assert logits[0, -1].argmax() == wanted[0, -1].argmax()
        generation.take(wanted)
        chosen.add(int(generation.ids[0, 0]))
    assert steps.count("done") == 1 and len(chosen) > 3
    for name, cache in session.state.items():
        assert_close(cache, reference.caches[name], 1e-4)
