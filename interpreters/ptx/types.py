"""Mapping of PTX types and constants to LLVM IR."""

from __future__ import annotations

import re
import struct

from tcopt.support.errors import UnsupportedError

_FLOATS = {"f16": "half", "f32": "float", "f64": "double", "f16x2": "<2 x half>"}
_SUFFIXES = {"half": "f16", "float": "f32", "double": "f64", "<2 x half>": "v2f16"}
_TYPE = re.compile(r"([a-z]+)(\d+)")


def bits(type_: str) -> int:
    """Return the size of a PTX type in bits; 1 for a predicate.

    Raises:
        UnsupportedError: the text is not a known type.
    """
    if type_ == "pred":
        return 1
    if type_ in ("f16x2", "bf16x2"):
        return 32
    found = _TYPE.fullmatch(type_)
    if found is None:
        raise UnsupportedError(f"PTX of type {type_!r}")
    return int(found[2])


def is_float(type_: str) -> bool:
    return type_ in _FLOATS or type_ == "bf16"


def is_signed(type_: str) -> bool:
    return type_.startswith("s")


def integer(type_: str) -> str:
    """Return the LLVM integer type of a PTX type's size."""
    return f"i{bits(type_)}"


def llvm_type(type_: str) -> str:
    """Return the LLVM type for computing with a PTX type; `bf16` is computed in `float`.

    Raises:
        UnsupportedError: the type is `bf16x2`.
    """
    if type_ == "bf16x2":
        raise UnsupportedError("PTX that computes with pairs of bf16")
    return "float" if type_ == "bf16" else _FLOATS.get(type_) or integer(type_)


def suffix(type_: str) -> str:
    """Return the suffix of LLVM intrinsics for a PTX type, such as `f32`."""
    return _SUFFIXES.get(llvm_type(type_), integer(type_))


def float_bits(text: str) -> int | None:
    """Return the bits of a float immediate `0f...` or `0d...`; None for other text."""
    if re.fullmatch(r"0[fFdD][0-9a-fA-F]+", text):
        return int(text[2:], 16)
    return None


def constant(value: float, type_: str) -> str:
    """Return an LLVM float constant, in hexadecimal as the bits of a double.

    Raises:
        UnsupportedError: the type is a packed pair.
    """
    if type_.endswith("x2"):
        raise UnsupportedError(f"PTX constants of type {type_!r}")
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
