"""Names that C has taken."""

from __future__ import annotations

import re
from functools import cache

_WORDS = (
    "auto bool break case char const constant continue default do double else enum extern false "
    "float for global goto half if inline int kernel local long private register restrict return "
    "short signed sizeof static struct switch true typedef uchar uint ulong union unsigned ushort "
    "void volatile while"
)


@cache
def taken_names() -> frozenset[str]:
    """Words of the language, and functions that kernels call, which nothing may hide."""
    from tcopt.backends.opencl.ops.math import FUNCTIONS

    calls = {*FUNCTIONS.values(), "abs", "fmax", "fmin", "max", "min", "select", "barrier"}
    calls.add("sub_group_shuffle_xor")
    return frozenset(calls.union(_WORDS.split()))


def identifier(text: str, prefix: str = "v") -> str:
    """A text as a C identifier, which may be taken."""
    name = re.sub(r"\W", "_", text)
    return f"{prefix}{name}" if name[:1].isdigit() else name


def kernel_name(symbol: str) -> str:
    """What a kernel is called in C."""
    name = identifier(symbol, "kernel_")
    return f"{name}_kernel" if name in taken_names() else name
