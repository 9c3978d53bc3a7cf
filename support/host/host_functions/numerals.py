"""Conversion between strings and numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tcopt.support.data.named_dtypes import named_dtype
from tcopt.support.data.strings import array_of_texts
from tcopt.support.errors import InputError
from tcopt.support.host.host_functions.registry import Array, Form, Settings, host_function
from tcopt.support.processes.stop_checks import in_steps

_FLOAT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity|nan)", re.I | re.A)
_INTEGER = re.compile(r"[+-]?\d{1,20}", re.A)
_LONGEST = 1 << 16
"""Maximum length of a string that represents a number."""
_DIGITS = ".8g"
"""Format of floats of up to 32 bits, as in onnxruntime; doubles have the shortest exact form."""


@host_function("string_to_number", takes=(True,), gives=(False,))
def string_to_number(
    settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]
) -> list[Array]:
    """Parse numbers; the setting `type` is the numpy name of their type.

    Raises:
        InputError: a string is not a number, or is out of range.
    """
    (x,), dtype = arrays, named_dtype(settings["type"])
    texts = [text.strip() for text in in_steps(x.reshape(-1).tolist(), len)]
    is_integer = dtype.kind in "iu"
    wanted = _INTEGER if is_integer else _FLOAT
    for text in in_steps(texts, len):
        if len(text) > _LONGEST or wanted.fullmatch(text) is None:
            raise InputError(f"the string {text[:40]!a} is not a number of type {dtype}")
    if is_integer:
        limits = np.iinfo(dtype)
        numbers = [int(text) for text in in_steps(texts)]
        for number in numbers:
            if not limits.min <= number <= limits.max:
                raise InputError(f"{number} is out of range for {dtype}")
        # Compiled code uses signless integers.
        return [np.array(numbers, dtype).view(forms[0].dtype).reshape(x.shape)]
    with np.errstate(all="ignore"):
        found = np.array([float(text) for text in in_steps(texts, len)]).astype(dtype)
    return [found.reshape(x.shape)]


@host_function("number_to_string", takes=(False,), gives=(True,))
def number_to_string(
    settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]
) -> list[Array]:
    """Format numbers as decimals; the setting `type` is the numpy name of their type."""
    (x,) = arrays
    name = settings["type"]
    if name == "bool" or "int" in name:
        values = x.astype(np.bool_).astype(np.int64) if name == "bool" else x.view(name)
        digits = (str(value) for value in in_steps(values.reshape(-1).tolist()))
        return [array_of_texts(digits, x.shape)]
    is_double = name == "float64"
    numbers = in_steps(x.astype(np.float64).reshape(-1).tolist())
    return [array_of_texts((_spelled(number, is_double) for number in numbers), x.shape)]


def _spelled(number: float, is_double: bool) -> str:
    if number != number:
        return "NaN"
    if number in (np.inf, -np.inf):
        return "INF" if number > 0 else "-INF"
    return repr(number).removesuffix(".0") if is_double else format(number, _DIGITS)
