"""Times of a decoder: to read a prompt, and to generate tokens one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.errors import InputError
from tcopt.tools.execution.decoder import Decoder

ROUNDS = 3
"""Number of times that each side reads the prompt and the tokens after it."""


@dataclass(frozen=True)
class TokenTimes:
    """Medians of a runtime, in seconds.

    Attributes:
        prompt: time to read the prompt.
        token: time to read one token and compute the logits of the next one.
        difference: maximum difference from the first runtime's logits, relative to their maximum
            magnitude.
    """

    name: str
    prompt: float
    token: float
    difference: float

    def row(self, prompt: int) -> str:
        """Return a line of text."""
        return (
            f"{self.name:12} prompt {self.prompt * 1e3:8.1f} ms "
            f"({prompt / self.prompt:6.0f} tokens/s)   token {self.token * 1e3:7.2f} ms "
            f"({1 / self.token:5.1f} tokens/s)   difference {self.difference:.1e}"
        )


def prompt_and_count(text: str) -> tuple[int, int]:
    """Return the two numbers of `PROMPT,COUNT`.

    Raises:
        InputError: it has another form.
    """
    prompt, _, count = text.partition(",")
    if not (prompt.isdecimal() and count.isdecimal() and int(prompt) and int(count)):
        raise InputError(f"--tokens takes the length of a prompt and a number, not {text!r}")
    return int(prompt), int(count)


def measure_tokens(
    source: str,
    decoder: Decoder,
    prompt: int,
    count: int,
    *,
    threads: int,
    peers: Sequence[str],
    seed: int = 0,
) -> Iterator[TokenTimes]:
    """Yield the times of this compiler and of onnxruntime, if it is among the peers.

    The runtimes take turns, and read the same random tokens.

    Args:
        source: file of the model.
        decoder: the compiled model.
        prompt: number of tokens of the prompt, which onnxruntime reads at once.
        count: number of tokens that follow.
    """
    decoder.model.threads = threads
    ids = next(spec for spec in decoder.model.outputs if spec.name == decoder.names.logits)
    words = ids.shape[-1]
    if not isinstance(words, int):
        raise InputError(f"the number of tokens in {ids} is not known")
    tokens = np.random.default_rng(seed).integers(0, words, prompt + count).tolist()
    sides: dict[str, Callable[[Sequence[int], int], NDArray[Any]]] = {
        "tcopt": lambda part, first: _ours(decoder, part, first)
    }
    if "onnxruntime" in peers:
        sides["onnxruntime"] = _Peer(source, decoder, threads)
    prompts: dict[str, list[float]] = {name: [] for name in sides}
    steps: dict[str, list[float]] = {name: [] for name in sides}
    logits: dict[str, NDArray[Any]] = {}
    for _ in range(ROUNDS):
        for name, run in sides.items():
            logits[name] = _timed(run, tokens[:prompt], 0, prompts[name])
            # Threads of a runtime wait actively, so the next one starts after the last token.
            for place in range(prompt, prompt + count):
                logits[name] = _timed(run, tokens[place : place + 1], place, steps[name])
    first = next(iter(logits.values()))
    for name in sides:
        difference = float(np.abs(logits[name] - first).max() / max(np.abs(first).max(), 1e-30))
        yield TokenTimes(name, median(prompts[name]), median(steps[name]), difference)


def _ours(decoder: Decoder, tokens: Sequence[int], first: int) -> NDArray[Any]:
    if first == 0:
        decoder.reset()
    return decoder.read(tokens)


def _timed(
    run: Callable[[Sequence[int], int], NDArray[Any]],
    tokens: Sequence[int],
    first: int,
    seconds: list[float],
) -> NDArray[Any]:
    start = time.perf_counter()
    result = run(tokens, first)
    seconds.append(time.perf_counter() - start)
    return result


class _Peer:
    """The model in onnxruntime; the cache is passed on as arrays."""

    def __init__(self, source: str, decoder: Decoder, threads: int):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(
            source, options, providers=["CPUExecutionProvider"]
        )
        self._decoder = decoder
        self._empty = {
            spec.name: np.zeros([d if isinstance(d, int) else 0 for d in spec.shape], spec.dtype)
            for spec in decoder.model.inputs
            if spec.name in decoder.names.states
        }
        self._past = self._empty
        self._outputs = [output.name for output in self._session.get_outputs()]

    def __call__(self, tokens: Sequence[int], first: int) -> NDArray[Any]:
        names = self._decoder.names
        past = self._past if first else self._empty
        found: Sequence[Any] = self._session.run(
            None, {**self._decoder.feeds(tokens, first), **past}
        )
        results = dict(zip(self._outputs, found, strict=True))
        self._past = {name: results[new] for name, new in names.states.items()}
        return results[names.logits][0, -1]
