"""Values of a kernel under construction: elements of buffers, and indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.arith import BitcastOp
from xdsl.dialects.builtin import IndexType, f32, f64, i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr

from tcopt.dialects.arith_ import IndexCastOp
from tcopt.dialects.loop.index_ops import IndexOp
from tcopt.dialects.te.dtypes import is_float, is_unsigned
from tcopt.dialects.te.scalar import storage_type, width_of

if TYPE_CHECKING:
    from tcopt.dialects.loop.writer import KernelWriter

INDEX = IndexType()


class Scalar:
    """A value in a kernel: an element of a buffer, or an index.

    Arithmetic and comparisons follow the element type, signed or unsigned; Python numbers adapt to
    it, and so do sizes. Indices combine with Python numbers and sizes only.
    """

    def __init__(self, writer: KernelWriter, value: SSAValue, dtype: Attribute):
        self.writer = writer
        self.value = value
        self.dtype = dtype

    def _binary(self, kind: str, other: Operand, swapped: bool = False) -> Scalar:
        rhs = self.writer.scalar(other, self.dtype)
        operands = (rhs.value, self.value) if swapped else (self.value, rhs.value)
        return Scalar(
            self.writer, self.writer.emitter.operation(kind, operands, self.dtype), self.dtype
        )

    def _compare(self, predicate: str, other: Operand) -> Scalar:
        rhs = self.writer.scalar(other, self.dtype)
        emitter = self.writer.emitter
        return Scalar(
            self.writer, emitter.compare(predicate, self.value, rhs.value, self.dtype), i1
        )

    def __add__(self, other: Operand) -> Scalar:
        return self._binary("add", other)

    def __sub__(self, other: Operand) -> Scalar:
        return self._binary("sub", other)

    def __rsub__(self, other: Operand) -> Scalar:
        return self._binary("sub", other, swapped=True)

    def __mul__(self, other: Operand) -> Scalar:
        return self._binary("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Scalar:
        return self._binary("div", other)

    def __and__(self, other: Operand) -> Scalar:
        return self._binary("and", other)

    def __or__(self, other: Operand) -> Scalar:
        return self._binary("or", other)

    def __xor__(self, other: Operand) -> Scalar:
        return self._binary("xor", other)

    def __lshift__(self, count: int) -> Scalar:
        return self._binary("shl", count)

    def __invert__(self) -> Scalar:
        return self._binary("xor", 1 if self.dtype == i1 else -1)

    def __lt__(self, other: Operand) -> Scalar:
        return self._compare("lt", other)

    def __le__(self, other: Operand) -> Scalar:
        return self._compare("le", other)

    def __gt__(self, other: Operand) -> Scalar:
        return self._compare("gt", other)

    def __ge__(self, other: Operand) -> Scalar:
        return self._compare("ge", other)

    def equals(self, other: Operand) -> Scalar:
        """Whether two values are equal."""
        return self._compare("eq", other)

    def differs(self, other: Operand) -> Scalar:
        """Whether two values differ; true when one is nan."""
        return self._compare("ne", other)

    def precedes(self, other: Scalar) -> Scalar:
        """Whether it comes first in ascending order, with nan after all other values."""
        if not is_float(self.dtype):
            return self < other
        return ~(self >= other) & self.equals(self)

    def order_key(self) -> Scalar:
        """Return an integer that orders like `precedes`, with all nan equal."""
        if not is_float(self.dtype):
            return self
        k, word = self.writer, self.writer.order_type(self.dtype)
        wide = self.cast(f64 if word == i64 else f32)
        bits = wide.bitcast(word)
        most = (1 << (width_of(word) - 1)) - 1
        # The bit patterns of negative floats increase as the values decrease.
        own = k.select(bits < 0, bits._binary("xor", most), bits, word)
        own = k.select(wide.equals(0), 0, own, word)
        return k.select(wide.differs(wide), most, own, word)

    def bitcast(self, dtype: Attribute) -> Scalar:
        """Reinterpret the bits as another element type of the same width."""
        op = BitcastOp(self.value, storage_type(dtype))
        return Scalar(self.writer, self.writer.emitter.add(op), dtype)

    def bits(self, first: int, count: int, turned: int = 0) -> Scalar:
        """Return `count` bits of an integer from bit `first` as an index, inverting bits of
        `turned`."""
        own = self._binary("shr", first) if first else self
        own = own & ((1 << count) - 1)
        own = own._binary("xor", turned) if turned else own
        return Scalar(self.writer, self.writer.emitter.to_index(own.value, True), INDEX)

    def field(self, first: int, count: int) -> Scalar:
        """Return `count` bits of an unsigned integer from bit `first`, in its own type."""
        own = self._binary("shr", first) if first else self
        return own if first + count == width_of(self.dtype) else own & ((1 << count) - 1)

    def shifted(self, count: int) -> Scalar:
        """Return an index plus a constant, as one affine expression."""
        inner = self.value.owner if isinstance(self.value.owner, IndexOp) else None
        place = AffineDimExpr(0) if inner is None else inner.map.data.results[0]
        operands = [self.value] if inner is None else list(inner.indices)
        return self.writer.index(place, operands, count)

    def divided(self, other: int) -> Scalar:
        """Divide a non-negative index by a positive constant."""
        op = arith.DivUIOp(self.value, self.writer.scalar(other, self.dtype).value)
        return Scalar(self.writer, self.writer.emitter.add(op), self.dtype)

    def modulo(self, other: int) -> Scalar:
        """Return the remainder of a non-negative value by a positive constant."""
        return self._binary("fmod", other)

    def maximum(self, other: Operand) -> Scalar:
        """Return the maximum; nan propagates."""
        return self._binary("max", other)

    def minimum(self, other: Operand) -> Scalar:
        """Return the minimum; nan propagates."""
        return self._binary("min", other)

    def clamp(self, low: float, high: Operand) -> Scalar:
        """Clamp to `[low, high]`; nan becomes `low`."""
        kept = self.writer.select(self > low, self, low, self.dtype)
        return kept.minimum(high)

    def ceil(self) -> Scalar:
        """Round a float up to an integer, as a float."""
        value = self.writer.emitter.operation("ceil", [self.value], self.dtype)
        return Scalar(self.writer, value, self.dtype)

    def cast(self, dtype: Attribute) -> Scalar:
        """Convert the value to another element type, or to an index."""
        emitter = self.writer.emitter
        if dtype == self.dtype:
            return self
        if dtype == INDEX:
            value = emitter.to_index(self.value, is_unsigned(self.dtype))
        elif self.dtype == INDEX and is_float(dtype):
            return self.cast(i64).cast(dtype)
        elif self.dtype == INDEX:
            value = emitter.add(IndexCastOp(self.value, storage_type(dtype)))
        else:
            value = emitter.cast(self.value, self.dtype, dtype)
        return Scalar(self.writer, value, dtype)


Operand = Scalar | int | float
