"""Names that C has taken."""

from __future__ import annotations

import re
from functools import cache

from tcopt.support.identifiers import distinct, identifier

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
"""Functions that kernels call: the values of `functions.FUNCTIONS`, and those of other ops."""

_RESERVED = re.compile(
    r"(bool|u?char|u?short|u?int|u?long|half|float|double|quad)\d+(x\d+)?|\w*_t|[A-Z0-9_]+"
    r"|_[_A-Z]\w*|v(load|store)\w*|(as|async|atom|atomic|cl|convert|get|half|mem|native|read"
    r"|sub_group|wait|work_group|write)_\w+",
    re.ASCII,
)
"""Vector types, other types, macros, and functions that each device has some more of."""


@cache
def taken_names() -> frozenset[str]:
    """Words of the language, and functions that kernels call, which nothing may hide."""
    return frozenset((*_FUNCTIONS.split(), *_WORDS.split()))


def variable(text: str, prefix: str = "v") -> str:
    """A text as the name of a variable, which is not a word of the language; it may be taken."""
    name = identifier(text, prefix)
    return f"{prefix}_{name}" if _RESERVED.fullmatch(name) else name


def kernel_name(symbol: str) -> str:
    """What a kernel is called in C."""
    name = distinct(symbol, "kernel_", taken_names())
    return f"kernel_{name}" if _RESERVED.fullmatch(name) else name
