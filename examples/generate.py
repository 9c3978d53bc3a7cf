"""Generate text with a language model.

    python examples/generate.py [folder] --prompt "Once upon a time" --tokens 100

The folder contains a model as onnxruntime-genai's builder writes it: `genai_config.json`, an ONNX
file and `tokenizer.json`, which the package `tokenizers` reads. Without a folder, a small
random model generates characters.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tcopt.frontends.onnx.building.decoder import DecoderShape, random_decoder
from tcopt.support.errors import TcoptError
from tcopt.tools.execution.decoder import Decoder, DecoderNames

PRINTABLE = 95
"""Number of printable ASCII characters."""


class Tokenizer(Protocol):
    """Converts between text and token numbers."""

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens; an incomplete character at the end is U+FFFD."""
        ...


class Characters:
    """The tokenizer of the random model: each printable ASCII character is a token."""

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text; others than printable ASCII characters are skipped."""
        return [ord(each) - 32 for each in text if 32 <= ord(each) < 32 + PRINTABLE]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the characters of tokens."""
        return "".join(chr(32 + token) for token in tokens)


class File:
    """A tokenizer that is read from `tokenizer.json`."""

    def __init__(self, path: Path):
        try:
            tokenizers = import_module("tokenizers")
        except ImportError:
            sys.exit("the tokenizer needs a package: pip install tokenizers")
        self._reader = tokenizers.Tokenizer.from_file(str(path))

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        return self._reader.encode(text).ids

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""
        return self._reader.decode(list(tokens))


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn.

    Attributes:
        temperature: divisor of the logits; 0 takes the most likely token.
        top_k: draw from this number of most likely tokens; 0 draws from all.
        top_p: draw from the most likely tokens that have this probability together.
    """

    temperature: float
    top_k: int
    top_p: float

    def draw(self, logits: np.ndarray, rng: np.random.Generator) -> int:
        """Return a token; `logits` has one element for each."""
        if self.temperature == 0:
            return int(logits.argmax())
        order = np.argsort(-logits)[: self.top_k or None]
        scaled = (logits[order].astype(np.float64) - logits[order[0]]) / self.temperature
        weights = np.exp(scaled)
        weights /= weights.sum()
        # The first token is always kept.
        kept = np.cumsum(weights) - weights < self.top_p
        kept[0] = True
        weights = np.where(kept, weights, 0)
        return int(rng.choice(order, p=weights / weights.sum()))


def generate(
    decoder: Decoder, prompt: Sequence[int], sampling: Sampling, rng: np.random.Generator
) -> Iterator[int]:
    """Yield the tokens that follow a prompt, without end."""
    logits = decoder.read(prompt)
    while True:
        token = sampling.draw(logits, rng)
        yield token
        logits = decoder.read([token])


def load(folder: Path | None) -> tuple[Any, DecoderNames, int, set[int], Tokenizer]:
    """Return a model, its names, the length of its context, the tokens that end a text, and its
    tokenizer; a random one without a folder."""
    if folder is None:
        shape = DecoderShape(words=PRINTABLE)
        model = random_decoder(shape)
        return model, DecoderNames.of_model(model), shape.context, set(), Characters()
    config = json.loads((folder / "genai_config.json").read_text())
    path = folder / config["model"]["decoder"]["filename"]
    ends = config["model"].get("eos_token_id", [])
    stops = {ends} if isinstance(ends, int) else set(ends)
    names = DecoderNames.in_config(config)
    tokenizer = File(folder / "tokenizer.json")
    return path, names, config["model"]["context_length"], stops, tokenizer


def main() -> None:
    """Generate text until a stop token, a limit or Ctrl-C."""
    parser = argparse.ArgumentParser(description="Generate text with a language model.")
    parser.add_argument("folder", nargs="?", type=Path, help="the model (a small random one)")
    parser.add_argument("--prompt", default="Once upon a time")
    parser.add_argument("--tokens", type=int, default=32, help="maximum number of new tokens")
    parser.add_argument("--context", type=int, default=0, help="limit of the sequence's length")
    parser.add_argument("--chunk", type=int, default=64, help="tokens of a prompt in a run")
    parser.add_argument("--temperature", type=float, default=0.8, help="0 is greedy")
    parser.add_argument("--top-k", type=int, default=40, help="0 is all tokens")
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--stop", action="append", default=[], help="text that ends the output")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    source, names, context, stops, tokenizer = load(options.folder)
    prompt = tokenizer.encode(options.prompt)
    context = options.context or context
    count = min(options.tokens, context - len(prompt))
    if not prompt or count < 1:
        sys.exit(f"a prompt of {len(prompt)} tokens leaves no room in a context of {context}")
    started = time.perf_counter()
    decoder = Decoder(source, names, context, min(options.chunk, context))
    print(f"ready after {time.perf_counter() - started:.1f} s", file=sys.stderr)

    sampling = Sampling(options.temperature, options.top_k, options.top_p)
    tokens: list[int] = []
    shown, times = "", [time.perf_counter()]
    print(options.prompt, end="", flush=True)
    try:
        for token in generate(decoder, prompt, sampling, np.random.default_rng(options.seed)):
            times.append(time.perf_counter())
            if token in stops:
                break
            tokens.append(token)
            # An incomplete character is shown when its last byte has arrived.
            text = tokenizer.decode(tokens)
            if not text.endswith("\ufffd"):
                print(text[len(shown) :], end="", flush=True)
                shown = text
            if len(tokens) == count or any(stop in text for stop in options.stop):
                break
    except KeyboardInterrupt:
        pass
    print()
    if len(times) > 2:
        first, rest = times[1] - times[0], np.median(np.diff(times[1:]))
        print(f"first token {first * 1e3:.1f} ms, others {rest * 1e3:.2f} ms", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except TcoptError as error:
        sys.exit(f"error: {error}")
