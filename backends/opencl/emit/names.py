"""Names in OpenCL C, and reserved words."""

from __future__ import annotations

import re
from functools import cache

from tcopt.backends.identifiers import distinct, identifier

_WORDS = (
    "auto bool break case char complex const constant continue default do double else enum extern "
    "false float for generic global goto half if imaginary inline int kernel linux local long "
    "main pipe private quad read_only read_write register restrict return short signed sizeof "
    "static struct switch true typedef typeof uchar uint ulong uniform union unix unsigned ushort "
    "vec_step void volatile while write_only"
)
_FUNCTIONS = (
    "abs acos acosh asin asinh atan atan2 atanh barrier cbrt ceil clz copysign cos cosh erf exp "
    "exp2 expm1 fabs floor fma fmax fmin fmod log log10 log1p log2 max min popcount pow rint "
    "round rsqrt select sin sinh sqrt sub_group_shuffle_xor tan tanh trunc"
)
"""Functions that kernels call: the values of `functions.FUNCTIONS`, and those used by other ops."""

_RESERVED = re.compile(
    r"(bool|u?char|u?short|u?int|u?long|half|float|double|quad)\d+(x\d+)?|\w*_t|[A-Z0-9_]+"
    r"|_[_A-Z]\w*|v(load|store)\w*|(as|async|atom|atomic|cl|convert|get|half|mem|native|read"
    r"|sub_group|wait|work_group|write)_\w+",
    re.ASCII,
)
"""Vector types, other types, macros, and families of built-in functions."""


@cache
def taken_names() -> frozenset[str]:
    """Return reserved words and the names of called functions, which must not be shadowed."""
    return frozenset((*_FUNCTIONS.split(), *_WORDS.split()))


def variable(text: str, prefix: str = "v") -> str:
    """Convert a text to a variable name that is not reserved; it may already be in use."""
    name = identifier(text, prefix)
    return f"{prefix}_{name}" if _RESERVED.fullmatch(name) else name


def kernel_name(symbol: str) -> str:
    """Return the name of a kernel in C."""
    name = distinct(symbol, "kernel_", taken_names())
    return f"kernel_{name}" if _RESERVED.fullmatch(name) else name
