"""Names that LLVM IR, assembly and object files take."""

from __future__ import annotations

import re

from tcopt.support.errors import UnsupportedError
from tcopt.support.identifiers import distinct

_C_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.$]*", re.ASCII)
_OF_THE_POOL = ("parallel", "num_threads", "set_threads")
"""What the thread pool calls `tcopt_parallel` and so on."""


def symbol_of(name: str) -> str:
    """The LLVM name of a function with a body.

    The prefix keeps kernels called `exp` or `main` apart from the C functions of that name.
    """
    return f"tcopt.{distinct(name)}"


def entry_symbol(name: str) -> str:
    """The name of the C entry point of a public function."""
    return f"tcopt_{distinct(name, taken=_OF_THE_POOL)}"


def global_symbol(name: str) -> str:
    """The LLVM name of a constant or variable of a module."""
    return f"tcopt.global.{distinct(name)}"


def external_symbol(name: str) -> str:
    """The name of a function that is defined elsewhere.

    Raises:
        UnsupportedError: no function of C has such a name.
    """
    if _C_FUNCTION.fullmatch(name) is None:
        raise UnsupportedError(f"a function from elsewhere cannot be called '{name}'")
    return name
