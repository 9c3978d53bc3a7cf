"""Forms in which centred integers of 8-bit origin are stored as bytes."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import IntegerType, Signedness, i8
from xdsl.ir import Attribute, SSAValue

from tcopt.dialects.graph.core.types import integer_range
from tcopt.support.arithmetic.intervals import Range, is_within, join

U8 = IntegerType(8, Signedness.UNSIGNED)


class ByteOrigin(NamedTuple):
    """Origin of centred integers that derive from 8-bit values.

    Attributes:
        element: element type in the model.
        limits: minimum and maximum, if the zero point is known.
        zero: the zero point, if it is only known at run time.
    """

    element: Attribute
    limits: Range | None
    zero: SSAValue | None

    def union(self, other: ByteOrigin) -> ByteOrigin | None:
        """Return the origin of integers that may have either origin, or None."""
        if self.limits is None or other.limits is None:
            return self if self == other else None
        return ByteOrigin(self.element, join((self.limits, other.limits)), None)

    def form(self, element: Attribute) -> ByteForm | None:
        """Return the form that stores them as bytes of a type; None if their range is too large."""
        whole = low, high = integer_range(element)
        if self.limits is None:
            return ByteForm(element, low - integer_range(self.element)[0], self.zero)
        least, most = self.limits
        if most - least > high - low:
            return None
        return ByteForm(element, 0 if is_within(self.limits, whole) else low - least, None)


class ByteForm(NamedTuple):
    """Form that stores centred integers as bytes: a type and a shift, which represents zero.

    Attributes:
        element: type of the bytes.
        offset: the shift, or its difference from the zero point.
        zero: zero point that is only known at run time.
    """

    element: Attribute
    offset: int
    zero: SSAValue | None

    @property
    def is_centred(self) -> bool:
        """Whether the shift is zero."""
        return self.zero is None and self.offset == 0

    def __str__(self) -> str:
        sign = "signed" if self.element == i8 else "unsigned"
        shift = str(self.offset) if self.zero is None else "the zero point"
        return f"data in {sign} bytes" if self.is_centred else f"data in {sign} bytes above {shift}"
