"""What a program checks of the data that it is given, beside what it computes.

A check is an output of the program that the model does not have: elements that are true where a
run is to be refused. Its name says why, and for which node of the model.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.specs import TensorSpec
from tcopt.support.alignment import ALIGNMENT
from tcopt.support.errors import InputError
from tcopt.support.structures import Kind

Array = NDArray[Any]


def split_checks(outputs: Sequence[TensorSpec]) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """The outputs of a model, and the checks behind them."""
    checks = [spec for spec in outputs if spec.kind is Kind.CHECK]
    return list(outputs[: len(outputs) - len(checks)]), checks


def split_keys(inputs: Sequence[TensorSpec]) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """The inputs of a model, and the random keys behind them, see `support.random_keys`."""
    keys = [spec for spec in inputs if spec.kind is Kind.KEY]
    return list(inputs[: len(inputs) - len(keys)]), keys


class CheckMemory:
    """What a program writes its checks to: one block, so that asking costs next to nothing.

    Attributes:
        addresses: where each of the checks is.
    """

    def __init__(self, checks: Sequence[TensorSpec]):
        self._checks = list(checks)
        sizes = [math.prod(int(n or 0) for n in spec.shape) for spec in checks]
        starts = list(accumulate((-(-size // ALIGNMENT) * ALIGNMENT for size in sizes), initial=0))
        self._bytes = bytearray(starts[-1] + ALIGNMENT)
        # Held for as long as code may write there.
        self._holder = (ctypes.c_char * len(self._bytes)).from_buffer(self._bytes)
        first = ctypes.addressof(self._holder)
        skipped = -first % ALIGNMENT
        self._places = [
            slice(skipped + start, skipped + start + size)
            for start, size in zip(starts, sizes, strict=False)
        ]
        self.addresses = [first + place.start for place in self._places]

    def refuse_if_any(self) -> None:
        """As the function of this name, for what the last run wrote."""
        if self._checks and 1 in self._bytes:
            arrays = [np.frombuffer(self._bytes[place], np.bool_) for place in self._places]
            refuse_if_any(self._checks, arrays)


def refuse_if_any(checks: Sequence[TensorSpec], arrays: Sequence[Array]) -> None:
    """Refuse a run whose data is not what the model may be given.

    Args:
        arrays: what each of the checks gave.
    Raises:
        InputError: one of them is true somewhere; the first one says why.
    """
    for spec, array in zip(checks, arrays, strict=True):
        if array.any():
            raise InputError(spec.name)
