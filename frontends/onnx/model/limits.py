"""Resource limits for models, as a small file can describe an unlimited amount of work."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from tcopt.support.errors import InputError


@dataclass(frozen=True)
class ModelLimits:
    """Limits that an imported model must not exceed.

    Attributes:
        tensor_bytes: maximum size of a tensor: input, weight or result.
        nodes: maximum number of nodes after expansion of functions, branches and loops.
        depth: maximum nesting of functions and subgraphs.
        loop_steps: maximum number of iterations of a loop that must be unrolled, or whose results
            of iterations need room while their number is unknown.
        folded_elements: maximum number of elements of a tensor that is computed during import.
        made_elements: maximum number of elements of a constant that an operator implies, such as a
            range or the matrix of a Fourier transform.
    """

    tensor_bytes: int = 2**34
    nodes: int = 50_000
    depth: int = 64
    loop_steps: int = 1024
    folded_elements: int = 1024
    made_elements: int = 2**26


DEFAULT_LIMITS = ModelLimits()


def parse_limits(texts: Iterable[str]) -> ModelLimits:
    """Parse limits such as `tensor-bytes=1000000`.

    Raises:
        InputError: the limit does not exist, or its value is not a positive integer.
    """
    limits = DEFAULT_LIMITS
    names = {field.name.replace("_", "-"): field.name for field in fields(ModelLimits)}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in names:
            raise InputError(f"there is no limit '{name}'", hint=f"limits are {', '.join(names)}")
        if not re.fullmatch(r"[1-9][0-9]{0,17}", value):
            raise InputError(f"'{text}' is not a limit", hint=f"write '{name}=1000'")
        limits = replace(limits, **{names[name]: int(value)})
    return limits
