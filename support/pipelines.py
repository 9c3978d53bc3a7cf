"""Pass pipelines as text: `fold-constants,fuse-ops{max-ops=8},te-inline`.

The syntax is xDSL's; the errors are ours, one line that says what to write instead.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.arg_spec import parse_pipeline as parse_specs
from xdsl.utils.exceptions import ArgSpecParseError
from xdsl.utils.hints import type_repr

from tcopt.support.errors import ParsingError
from tcopt.support.registry import PassFactory, all_passes
from tcopt.support.suggestions import suggest


def parse_pipeline(
    text: str, passes: Mapping[str, PassFactory] | None = None
) -> tuple[ModulePass, ...]:
    """The passes that a pipeline text names, with their options.

    Args:
        text: comma-separated passes; options in braces, separated by spaces.
        passes: factories to choose from, by default every known pass.
    Raises:
        ParsingError: the text does not parse, names an unknown pass or has a bad option.
    """
    available = all_passes() if passes is None else passes
    return tuple(_make_pass(spec, available) for spec in _parse_specs(text))


def print_pipeline(passes: tuple[ModulePass, ...]) -> str:
    """The text that parses to these passes."""
    return ",".join(_print_spec(p.spec()) for p in passes)


# Spaces and newlines around a comma that is not inside an option list.
_LOOSE_COMMA = re.compile(r"\s*,\s*(?![^{}]*\})")


def _print_spec(spec: ArgSpec) -> str:
    options = {key.replace("_", "-"): value for key, value in spec.parameters.items()}
    return str(ArgSpec(spec.name, options))


def _parse_specs(text: str) -> tuple[ArgSpec, ...]:
    try:
        specs = tuple(parse_specs(_LOOSE_COMMA.sub(",", text.strip())))
    except ArgSpecParseError as error:
        # The message is a heading, the text, and a caret line that ends in the reason.
        reason = str(error).strip().splitlines()[-1].lstrip(" |^")
        raise ParsingError(
            f"the pipeline '{text}' does not parse: {reason}",
            hint="write 'pass-a,pass-b{option=1 other=x}'",
        ) from None
    return specs


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
