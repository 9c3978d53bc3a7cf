"""Parser of pipeline text: `fold-constants,fuse-ops{max-ops=8},te-inline`.

The syntax is xDSL's. Errors are one line that says how to write the pipeline instead.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.arg_spec import parse_pipeline as parse_arg_specs
from xdsl.utils.exceptions import ArgSpecParseError
from xdsl.utils.hints import type_repr

from tcopt.support.errors import ParsingError
from tcopt.support.pipelines.pass_specs import Passes, PassSpec, Value, passes_text
from tcopt.support.registries.registry import PassFactory, all_passes
from tcopt.support.suggestions import suggest


def parse_pipeline(
    text: str, passes: Mapping[str, PassFactory] | None = None
) -> tuple[ModulePass, ...]:
    """Parse a pipeline text to passes with their options.

    Args:
        text: comma-separated passes; options in braces, separated by spaces.
        passes: pass factories by name; by default those of all passes.
    Raises:
        ParsingError: the text is malformed, or has an unknown pass or a wrong option.
    """
    return make_passes(parse_specs(text), passes)


def make_passes(
    specs: Iterable[PassSpec], passes: Mapping[str, PassFactory] | None = None
) -> tuple[ModulePass, ...]:
    """Create the passes of specifications; see `parse_pipeline` for arguments and errors."""
    available = all_passes() if passes is None else passes
    return tuple(_make_pass(ArgSpec(s.name, dict(s.options)), available) for s in specs)


def print_pipeline(passes: tuple[ModulePass, ...]) -> str:
    """Return the text of a pipeline of passes."""
    return passes_text(
        PassSpec(
            spec.name,
            tuple((key.replace("_", "-"), values) for key, values in spec.parameters.items()),
        )
        for spec in (each.spec() for each in passes)
    )


_NUMBER = r"-[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?(?![\w.])"
_LOOSE_COMMA = re.compile(
    rf'"(?:\\.|[^"\\])*"|(?P<before>=|(?<=[\w"]),)(?P<negative>{_NUMBER})|\s*,\s*'
)
"""A quoted string, which is kept; a negative number; or a comma with surrounding spaces."""

_NEGATIVE = "\x1f"
"""Prefix of a string that represents a negative number, for which xDSL's lexer has no token."""

_ANCHORED = re.compile(r"\s*builtin\.module\s*\((.*)\)\s*", re.DOTALL)
"""A pipeline as printed by mlir-opt, anchored on the module."""


def parse_specs(text: str) -> Passes:
    """Parse a pipeline text to specifications, without checking that the passes exist.

    Raises:
        ParsingError: the text is malformed.
    """
    anchored = _ANCHORED.fullmatch(text)
    joined = _LOOSE_COMMA.sub(_plain, text if anchored is None else anchored[1]).strip()
    try:
        found = tuple(parse_arg_specs(joined))
    except ArgSpecParseError as error:
        # The message consists of a heading, the text, and a caret line that ends with the reason.
        reason = str(error).strip().splitlines()[-1].lstrip(" |^")
        raise ParsingError(
            f"the pipeline '{text}' does not parse: {reason}",
            hint="write 'pass-a,pass-b{option=1 other=x}'; passes run on the whole module",
        ) from None
    return tuple(
        PassSpec(
            spec.name,
            tuple((key, tuple(map(_value, values))) for key, values in spec.parameters.items()),
        )
        for spec in found
    )


def _plain(match: re.Match[str]) -> str:
    """Replace a match of `_LOOSE_COMMA` by text that xDSL's lexer accepts."""
    if match["negative"]:
        return f'{match["before"]}"{_NEGATIVE}{match["negative"]}"'
    return match[0] if match[0][0] == '"' else ","


def _value(value: Value) -> Value:
    """Convert the value of an option, decoding negative numbers."""
    if not isinstance(value, str) or not value.startswith(_NEGATIVE):
        return value
    text = value.removeprefix(_NEGATIVE)
    return float(text) if set(text) & set(".eE") else int(text)


def _make_pass(spec: ArgSpec, available: Mapping[str, PassFactory]) -> ModulePass:
    if spec.name not in available:
        raise ParsingError(f"there is no pass '{spec.name}'", hint=suggest(spec.name, available))
    cls = available[spec.name]()
    try:
        return cls.from_spec(spec)
    except (ValueError, TypeError) as error:
        raise ParsingError(_option_error(cls, spec, error)) from None


def _option_error(cls: type[ModulePass], spec: ArgSpec, error: Exception) -> str:
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init and f.name != "name"}
    known = ", ".join(
        f"{name.replace('_', '-')}: {type_repr(f.type)}" for name, f in fields.items()
    )
    options = f"its options are {known}" if known else "it takes no options"
    for key in spec.parameters:
        if key.replace("-", "_") not in fields:
            return f"pass '{spec.name}' has no option '{key}'; {options}"
    return f"pass '{spec.name}': {error}; {options}"
