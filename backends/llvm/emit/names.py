"""Symbol names in LLVM IR, assembly and object files."""

from __future__ import annotations

import re

from tcopt.backends.identifiers import distinct
from tcopt.support.errors import UnsupportedError

_C_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.$]*", re.ASCII)
_OF_THE_POOL = ("parallel", "num_threads", "set_threads")
"""Names reserved by the thread pool, such as `tcopt_parallel`."""


def symbol_of(name: str) -> str:
    """Return the LLVM name of a function with a body.

    The prefix separates kernels named `exp` or `main` from the C functions of that name.
    """
    return f"tcopt.{distinct(name)}"


def entry_symbol(name: str) -> str:
    """Return the name of the C entry point of a public function."""
    return f"tcopt_{distinct(name, taken=_OF_THE_POOL)}"


def global_symbol(name: str) -> str:
    """Return the LLVM name of a constant or variable of a module."""
    return f"tcopt.global.{distinct(name)}"


def external_symbol(name: str) -> str:
    """Return the name of a function that is defined elsewhere.

    Raises:
        UnsupportedError: it is not a legal C function name.
    """
    if _C_FUNCTION.fullmatch(name) is None:
        raise UnsupportedError(f"an external function cannot be called '{name}'")
    return name
