"""How much a model may ask for: a small file can describe endless work."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from tcopt.support.errors import InputError


@dataclass(frozen=True)
class Limits:
    """What is refused when a model is imported.

    Attributes:
        tensor_bytes: the largest tensor, be it an input, a weight or a result.
        nodes: nodes that functions, branches and loops may be written out to.
        depth: how deeply functions and bodies may nest.
        loop_steps: steps of a loop that has to be written out.
        folded_elements: elements of a tensor that is computed while importing.
        made_elements: elements of a constant that an operator stands for, such as a range or
            the matrix of a Fourier transform.
    """

    tensor_bytes: int = 2**34
    nodes: int = 50_000
    depth: int = 64
    loop_steps: int = 1024
    folded_elements: int = 1024
    made_elements: int = 2**26


DEFAULT_LIMITS = Limits()


def parse_limits(texts: Iterable[str]) -> Limits:
    """Limits from `tensor-bytes=1000000` and the like.

    Raises:
        InputError: there is no such limit, or its value is no positive number.
    """
    limits = DEFAULT_LIMITS
    names = {field.name.replace("_", "-"): field.name for field in fields(Limits)}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in names:
            raise InputError(f"there is no limit '{name}'", hint=f"limits are {', '.join(names)}")
        if not re.fullmatch(r"[1-9][0-9]{0,17}", value):
            raise InputError(f"'{text}' is not a limit", hint=f"write '{name}=1000'")
        limits = replace(limits, **{names[name]: int(value)})
    return limits
