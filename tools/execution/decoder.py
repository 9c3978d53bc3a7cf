"""Language models whose cache of keys and values stays in the memory of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tcopt
from tcopt.frontends.onnx.model.loading import load_model
from tcopt.frontends.onnx.model.options import Source
from tcopt.support.errors import InputError


@dataclass(frozen=True)
class DecoderNames:
    """Names of the inputs and outputs of a decoder; those of exporters by default.

    Attributes:
        states: the output that is the next value of each input of the cache.
        ids, mask, positions: inputs with tokens, with 1 for each token of the sequence, and with
            the position of each token. A model need not have the last two.
        logits: output with a score for each token of the vocabulary.
    """

    states: Mapping[str, str]
    ids: str = "input_ids"
    mask: str = "attention_mask"
    positions: str = "position_ids"
    logits: str = "logits"

    @classmethod
    def of_model(cls, source: Source) -> DecoderNames:
        """Return the names in a model with inputs `past_key_values...` and outputs `present...`.

        Raises:
            InputError: the file does not exist, or the model has no such inputs and outputs.
            ImportModelError: it is not an ONNX model.
        """
        graph = load_model(source)[0].graph
        outputs = {value.name for value in graph.output}
        pairs = {
            value.name: value.name.replace("past_key_values", "present", 1) for value in graph.input
        }
        states = {past: new for past, new in pairs.items() if past != new and new in outputs}
        if not states or "input_ids" not in pairs or "logits" not in outputs:
            raise InputError(
                "the model is not a decoder with a cache",
                hint="its inputs should be input_ids, past_key_values.0.key and so on, and its "
                "outputs logits, present.0.key and so on",
            )
        return cls(states)

    @classmethod
    def in_config(cls, config: Mapping[str, Any]) -> DecoderNames:
        """Return the names in the content of a `genai_config.json`."""
        decoder = config["model"]["decoder"]
        inputs, outputs = decoder["inputs"], decoder["outputs"]
        states = {
            inputs[f"past_{kind}_names"] % layer: outputs[f"present_{kind}_names"] % layer
            for layer in range(decoder["num_hidden_layers"])
            for kind in ("key", "value")
        }
        given = {
            "ids": inputs.get("input_ids"),
            "mask": inputs.get("attention_mask"),
            "positions": inputs.get("position_ids"),
            "logits": outputs.get("logits"),
        }
        return cls(states, **{role: name for role, name in given.items() if name is not None})


class Decoder:
    """A decoder for one sequence: one program for prompts of any length and for single tokens.

    Args:
        source: the ONNX model, or its file.
        names: names of its inputs and outputs.
        context: maximum number of tokens of a sequence.
        chunk: maximum number of tokens that a run reads.
        options: as of `tcopt.compile`.

    Attributes:
        model: the compiled model.
        length: number of tokens of the sequence.
    """

    def __init__(
        self, source: Source, names: DecoderNames, context: int, chunk: int, **options: Any
    ):
        self.names, self.chunk = names, chunk
        shapes = {
            each.name: [d.dim_param or d.dim_value for d in each.type.tensor_type.shape.dim]
            for each in load_model(source)[0].graph.input
        }
        self._declared = shapes.keys()
        batch, length = shapes[names.ids]
        past = shapes[next(iter(names.states))][2]
        dims: dict[Any, Any] = {batch: 1, length: (1, chunk), past: (0, context)}
        if names.mask in shapes:
            dims[shapes[names.mask][1]] = f"{past} + {length}"
        dims = {name: given for name, given in dims.items() if isinstance(name, str)}
        self.model = tcopt.compile(source, dims=dims, donate=names.states, **options)
        self._session = tcopt.Session(self.model, names.states)
        states = {*names.states.values()}
        self._results = [s.name for s in self.model.outputs if s.name not in states]
        self.length = 0

    def reset(self) -> None:
        """Start a new sequence."""
        self._session.reset()
        self.length = 0

    def feeds(self, tokens: Sequence[int], first: int) -> dict[str, NDArray[np.int64]]:
        """Return the inputs for tokens from a position on, other than the cache."""
        end = first + len(tokens)
        values = {
            self.names.ids: np.array([tokens], np.int64),
            self.names.mask: np.ones((1, end), np.int64),
            self.names.positions: np.arange(first, end, dtype=np.int64)[None],
        }
        return {name: value for name, value in values.items() if name in self._declared}

    def read(self, tokens: Sequence[int]) -> NDArray[Any]:
        """Append tokens to the sequence; return the logits of the token that follows.

        Raises:
            InputError: `tokens` is empty, or the sequence would become longer than the context.
        """
        if not tokens:
            raise InputError("there are no tokens to read")
        logits: NDArray[Any] = np.empty(0)
        for start in range(0, len(tokens), self.chunk):
            part = tokens[start : start + self.chunk]
            found = self._session.run(self.feeds(part, self.length))
            self.length += len(part)
            logits = dict(zip(self._results, found, strict=True))[self.names.logits]
        return logits[0, -1]
