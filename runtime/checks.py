"""Checks of input data that a program does in addition to its computation.

A check is an extra output that the model does not have: a boolean tensor that is true where the
data is invalid, in which case the run is refused. Its name is the error message, which includes the
node of the model.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.specs import TensorSpec, bytes_of
from tcopt.support.data.structures import Kind
from tcopt.support.errors import InputError
from tcopt.support.machines.alignment import ALIGNMENT

Array = NDArray[Any]


def split_added(
    specs: Sequence[TensorSpec], kind: Kind
) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Separate tensors that the compiler adds after a model's own inputs or outputs.

    Args:
        kind: checks, values of sizes, or random keys (`support.data.random_keys`).
    Returns:
        The other tensors, and the tensors of this kind.
    """
    added = [spec for spec in specs if spec.kind is kind]
    return list(specs[: len(specs) - len(added)]), added


class CheckMemory:
    """Memory of a program's checks: one block, so that testing it is cheap.

    Attributes:
        addresses: address of each check.
    """

    def __init__(self, checks: Sequence[TensorSpec]):
        self._checks = list(checks)
        sizes = list(map(bytes_of, checks))
        starts = list(accumulate((-(-size // ALIGNMENT) * ALIGNMENT for size in sizes), initial=0))
        self._bytes = bytearray(starts[-1] + ALIGNMENT)
        # Keeps the memory alive while code may write there.
        self._holder = (ctypes.c_char * len(self._bytes)).from_buffer(self._bytes)
        first = ctypes.addressof(self._holder)
        skipped = -first % ALIGNMENT
        self._places = [
            slice(skipped + start, skipped + start + size)
            for start, size in zip(starts, sizes, strict=False)
        ]
        self.addresses = [first + place.start for place in self._places]

    def refuse_if_any(self) -> None:
        """Call `refuse_if_any` for the checks of the last run."""
        if self._checks and 1 in self._bytes:
            arrays = [np.frombuffer(self._bytes[place], np.bool_) for place in self._places]
            self.clear()
            refuse_if_any(self._checks, arrays)

    def clear(self) -> None:
        """Forget failed checks: the next run may write less, if its sizes are smaller."""
        self._bytes[:] = bytes(len(self._bytes))


def refuse_if_any(checks: Sequence[TensorSpec], arrays: Sequence[Array]) -> None:
    """Raise an error if a check failed.

    Args:
        arrays: the value of each check.
    Raises:
        InputError: a check has a true element; the message is the first one's name.
    """
    for spec, array in zip(checks, arrays, strict=True):
        if array.any():
            raise InputError(spec.name)
