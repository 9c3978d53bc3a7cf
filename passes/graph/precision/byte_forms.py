"""How centred integers of 8-bit origin are stored in bytes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness, i8
from xdsl.ir import Attribute, SSAValue

from tcopt.dialects.graph.types import numpy_dtype

U8 = IntegerType(8, Signedness.UNSIGNED)


class Origin(NamedTuple):
    """What is known of centred integers of 8-bit origin.

    Attributes:
        element: the model's type.
        limits: the least and the greatest of them, where the zero point is known.
        zero: the zero point, where it is not.
    """

    element: Attribute
    limits: tuple[int, int] | None
    zero: SSAValue | None

    def union(self, other: Origin) -> Origin | None:
        """What is known of integers of either origin."""
        if self.limits is None or other.limits is None:
            return self if self == other else None
        rows = self.limits, other.limits
        return Origin(self.element, (min(a for a, _ in rows), max(b for _, b in rows)), None)

    def form(self, element: Attribute) -> ByteForm | None:
        """How to store them as bytes of a type; None if they differ by too much."""
        low, high = limits_of(element)
        if self.limits is None:
            return ByteForm(element, low - limits_of(self.element)[0], self.zero)
        least, most = self.limits
        if most - least > high - low:
            return None
        return ByteForm(element, 0 if low <= least and most <= high else low - least, None)


class ByteForm(NamedTuple):
    """How centred integers are stored in bytes: with a shift, which stands for zero.

    Attributes:
        element: the type of the bytes.
        offset: the shift, or what it exceeds the zero point by.
        zero: a zero point that is known at run time only.
    """

    element: Attribute
    offset: int
    zero: SSAValue | None

    @property
    def is_centred(self) -> bool:
        """Whether there is no shift."""
        return self.zero is None and self.offset == 0

    def __str__(self) -> str:
        sign = "signed" if self.element == i8 else "unsigned"
        shift = str(self.offset) if self.zero is None else "the zero point"
        return f"data in {sign} bytes" if self.is_centred else f"data in {sign} bytes above {shift}"


def limits_of(element: Attribute) -> tuple[int, int]:
    """The least and the greatest integer of a type."""
    limits = np.iinfo(numpy_dtype(element))
    return int(limits.min), int(limits.max)
