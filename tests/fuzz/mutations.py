"""Random changes of IR text, by tokens and by lines.

Each change keeps most of a text: a text rejected at its first token tests little.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

_TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"'  # a string
    r"|[%@^#!][\w.$-]+"  # a value, a symbol, a block, an attribute, a type
    r"|\d+\.\d*(?:[eE][-+]?\d+)?|0x[0-9a-fA-F]+|\d+"
    r"|[A-Za-z_][\w$.]*"
    r"|->|::|\s+|."
)
_NUMBER = re.compile(r"\d+(?:\.\d*(?:[eE][-+]?\d+)?)?|0x[0-9a-fA-F]+")
_WORD = re.compile(r'[A-Za-z_%@^#!"][^\n]*')
_ENTRY = re.compile(r'[\w."]+ = [^,{}<>\[\]]+(?:<[^<>]*>|\[[^\[\]]*\])?(?:, )?')

_NUMBERS = (
    "0", "1", "2", "3", "5", "7", "8", "16", "17", "64", "1000", "-1", "-2", "-16", "0.0", "-0.0",
    "1.5", "-2.5e-3", "1e400", "2147483648", "9223372036854775807", "-9223372036854775808",
    "18446744073709551616", "1000000000000000000000000000000", "0x7fc00000", "inf", "nan",
)  # fmt: skip
_INSERTED = (
    "(", ")", "[", "]", "{", "}", "<", ">", ",", ":", "=", "->", "*", "+", "-", "floordiv 2",
    "mod 0", "mod 3", '"', '"\\', "//", "?", "x", "true", "unit", "index", "f32", "i1", "i64",
    "f64", "bf16", "vector<4xf32>", "tensor<?xf32>", "memref<*xf32>", "tensor<0xf32>", "()",
    "{a = 1 : i64}", "attributes {a}", "\x00", "é", '"' + "x" * 60,
)  # fmt: skip

Mutation = Callable[[random.Random, str, Sequence[str]], str]


def mutate(rng: random.Random, text: str, others: Sequence[str]) -> str:
    """Return a text with one to three random changes, some of which insert parts of other texts."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        text = rng.choice(MUTATIONS)(rng, text, others)
    return text


def tokens_of(text: str) -> list[str]:
    """Split a text into tokens, including white space."""
    return _TOKEN.findall(text)


def _delete_token(rng: random.Random, text: str, others: Sequence[str]) -> str:
    tokens = tokens_of(text)
    start = rng.randrange(len(tokens) or 1)
    del tokens[start : start + rng.choice((1, 1, 1, 2, 3, 5))]
    return "".join(tokens)


def _duplicate_token(rng: random.Random, text: str, others: Sequence[str]) -> str:
    tokens = tokens_of(text)
    place = rng.randrange(len(tokens) or 1)
    tokens[place:place] = [*tokens[place : place + 1], " "]
    return "".join(tokens)


def _insert_token(rng: random.Random, text: str, others: Sequence[str]) -> str:
    tokens = tokens_of(text)
    source = rng.choice((_INSERTED, tokens_of(rng.choice(others)) or _INSERTED))
    tokens.insert(rng.randrange(len(tokens) + 1), f" {rng.choice(source)} ")
    return "".join(tokens)


def _swap_tokens(rng: random.Random, text: str, others: Sequence[str]) -> str:
    tokens = tokens_of(text)
    solid = [i for i, token in enumerate(tokens) if not token.isspace()]
    if len(solid) < 2:
        return text
    first = rng.randrange(len(solid) - 1)
    second = first + 1 if rng.random() < 0.5 else rng.randrange(len(solid))
    a, b = solid[first], solid[second]
    tokens[a], tokens[b] = tokens[b], tokens[a]
    return "".join(tokens)


def _change_number(rng: random.Random, text: str, others: Sequence[str]) -> str:
    matches = list(_NUMBER.finditer(text))
    if not matches:
        return text
    match = rng.choice(matches)
    number = rng.choice(_NUMBERS)
    if match[0].isdecimal() and rng.random() < 0.4:
        number = str(int(match[0]) + rng.choice((-1, 1)))
    return text[: match.start()] + number + text[match.end() :]


def _change_word(rng: random.Random, text: str, others: Sequence[str]) -> str:
    """Replace a value, symbol, op or keyword by another of its kind."""
    tokens = tokens_of(text)
    words = [i for i, token in enumerate(tokens) if _WORD.fullmatch(token)]
    if not words:
        return text
    place = rng.choice(words)
    pool = tokens if rng.random() < 0.6 else tokens_of(rng.choice(others))
    kind = tokens[place][0] if not tokens[place][0].isalpha() else "a"
    alike = [t for t in pool if t and (t[0] == kind or (kind == "a" and t[0].isalpha()))]
    if alike:
        tokens[place] = rng.choice(alike)
    return "".join(tokens)


def _drop_attribute(rng: random.Random, text: str, others: Sequence[str]) -> str:
    matches = list(_ENTRY.finditer(text))
    if not matches:
        return text
    match = rng.choice(matches)
    return text[: match.start()] + text[match.end() :]


def _change_lines(rng: random.Random, text: str, others: Sequence[str]) -> str:
    """Remove, duplicate or move one or a few lines."""
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    start = rng.randrange(len(lines))
    end = start + rng.choice((1, 1, 1, 2, 4))
    taken = lines[start:end]
    match rng.randrange(3):
        case 0:
            del lines[start:end]
        case 1:
            lines[start:start] = taken
        case _:
            del lines[start:end]
            place = rng.randrange(len(lines) + 1)
            lines[place:place] = taken
    return "".join(lines)


def _splice(rng: random.Random, text: str, others: Sequence[str]) -> str:
    """Insert a line of another text, or append the rest of another text."""
    lines = text.splitlines(keepends=True)
    other = rng.choice(others).splitlines(keepends=True)
    if not lines or not other:
        return text
    place, start = rng.randrange(len(lines) + 1), rng.randrange(len(other))
    if rng.random() < 0.7:
        return "".join([*lines[:place], *other[start : start + rng.randint(1, 3)], *lines[place:]])
    return "".join([*lines[:place], *other[start:]])


MUTATIONS: tuple[Mutation, ...] = (
    _delete_token,
    _duplicate_token,
    _insert_token,
    _swap_tokens,
    _change_number,
    _change_number,
    _change_word,
    _change_word,
    _drop_attribute,
    _change_lines,
    _splice,
)
