"""Tokenisation of strings, equivalent to onnxruntime's Tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcopt.support.data.strings import array_of_texts, check_characters
from tcopt.support.errors import InputError
from tcopt.support.host.host_functions.registry import Array, Form, Settings, host_function
from tcopt.support.host.patterns import compile_pattern
from tcopt.support.processes.stop_checks import in_steps

_START, _END = "\x02", "\x03"


def _compiled(pattern: str) -> Any:
    return compile_pattern(pattern, longest_match=True)


@dataclass(frozen=True)
class Tokenizer:
    """Splits strings into tokens.

    Attributes:
        expression: pattern of tokens; None if separators are used instead.
        separators: patterns that split a string one after the other.
        shortest: minimum number of characters of a token.
        mark: whether start and end tokens are added to each string.
    """

    expression: Any
    separators: tuple[Any, ...]
    shortest: int
    mark: bool

    @classmethod
    def of(cls, settings: Settings) -> Tokenizer:
        """Create a tokeniser from a call's settings.

        Raises:
            InputError: not exactly one of expression and separators is given, or a pattern is
                malformed.
        """
        expression, separators = settings["expression"], settings["separators"]
        if bool(expression) == bool(separators) or settings["shortest"] < 1:
            raise InputError(
                "a tokenizer needs either tokenexp or separators, and mincharnum of at least 1"
            )
        single = separators == [""]
        return cls(
            _compiled("(?s)." if single else expression) if expression or single else None,
            () if single else tuple(_compiled(each) for each in separators),
            settings["shortest"],
            settings["mark"],
        )

    def parts(self, text: str) -> list[str]:
        """Split a string into tokens."""
        if self.expression is not None:
            found = list(self._matches(text))
        else:
            found = [text]
            for separator in self.separators:
                found = [part for each in found for part in self._between(separator, each)]
        found = [part for part in found if len(part) >= self.shortest]
        return [_START, *found, _END] if self.mark else found

    def _matches(self, text: str) -> Iterator[str]:
        return (match.group() for match in in_steps(self.expression.finditer(text)))

    def _between(self, separator: Any, text: str) -> Iterator[str]:
        start = 0
        for match in in_steps(separator.finditer(text)):
            if match.end() > match.start():
                yield text[start : match.start()]
                start = match.end()
        yield text[start:]


@host_function("token_counts", takes=(True,), gives=(False,))
def token_counts(settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]) -> list[Array]:
    """Count the tokens of each string."""
    (x,), tokens = arrays, Tokenizer.of(settings)
    counts = [len(tokens.parts(text)) for text in in_steps(x.reshape(-1).tolist(), len)]
    return [np.array(counts, np.int64).reshape(x.shape)]


@host_function("tokens", takes=(True,), gives=(True,))
def tokens_of(settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]) -> list[Array]:
    """Return the tokens of each string along a new last axis, filled up with the setting `pad`."""
    (x,), width, tokens = arrays, forms[0].shape[-1], Tokenizer.of(settings)
    check_characters(x.size * width)
    rows: list[str] = []
    for text in in_steps(x.reshape(-1).tolist(), len):
        parts = tokens.parts(text)[:width]
        rows += parts + [settings["pad"]] * (width - len(parts))
    return [array_of_texts(rows, forms[0].shape)]
