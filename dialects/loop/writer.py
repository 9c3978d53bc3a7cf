"""Builder for handwritten loops: kernels whose iterations depend on one another or on data.

Kernels that a tensor expression cannot express (sorting, scattering, suppression) are written as
loops over buffers, in Python that reads like the kernel:

    k = KernelWriter("cumsum", {"x": (memref_type, f32), "y": (memref_type, f32)})
    total = k.variable(f32, 0)
    with k.loop(100) as i:
        total.set(total.get() + k["x"][i])
        k["y"][i] = total.get()
    function = k.finish()

The result is a `loop.func` without blocks, so there is nothing to schedule.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from xdsl.dialects import arith, scf
from xdsl.dialects.arith import BitcastOp
from xdsl.dialects.builtin import IndexType, MemRefType, f32, f64, i1, i32, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tcopt.dialects.arith_ import IndexCastOp, SelectOp
from tcopt.dialects.loop.access import LoadOp, StoreOp
from tcopt.dialects.loop.attrs import LoopKind
from tcopt.dialects.loop.computed_indices import is_computed, ranges_at
from tcopt.dialects.loop.index_ops import IndexOp
from tcopt.dialects.loop.memory import AllocOp
from tcopt.dialects.loop.scopes import Scope
from tcopt.dialects.loop.structure import ForOp, FuncOp
from tcopt.dialects.te.dtypes import is_float, is_unsigned
from tcopt.dialects.te.scalar import Emitter, storage_type, width_of
from tcopt.support.arithmetic.affine import substitute
from tcopt.support.syntax.access_syntax import unique_operands

AnyMemRef = MemRefType[Attribute]
INDEX = IndexType()

LANES = 16, 8, 4
"""Lanes of vectors, longest first; a vector may occupy several registers."""


class Scalar:
    """A value in a kernel: an element of a buffer, or an index.

    Arithmetic and comparisons follow the element type, signed or unsigned; Python numbers adapt to
    it. Indices combine with Python numbers only.
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
        op = IndexOp(AffineMap(len(operands), 0, (place + count,)), operands)
        return Scalar(self.writer, self.writer.emitter.add(op), INDEX)

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

    def clamp(self, low: float, high: float) -> Scalar:
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
        elif self.dtype == INDEX:
            value = emitter.add(IndexCastOp(self.value, storage_type(dtype)))
        else:
            value = emitter.cast(self.value, self.dtype, dtype)
        return Scalar(self.writer, value, dtype)


Operand = Scalar | int | float


class Buffer:
    """A buffer of a kernel: `b[i, j]` reads an element and `b[i, j] = v` writes it.

    An out-of-bounds index is clamped to the nearest element. No clamp is emitted if loops, limits
    and the conditions of `when` prove the index in bounds. A buffer without elements reads as
    zero.
    """

    def __init__(self, writer: KernelWriter, value: SSAValue, dtype: Attribute):
        type_ = value.type
        assert isinstance(type_, MemRefType)
        self.writer = writer
        self.value = value
        self.dtype = dtype
        self.shape: tuple[int, ...] = type_.get_shape()

    def _access(self, indices: Operand | Sequence[Operand]) -> tuple[AffineMap, list[SSAValue]]:
        """Return the map and operands of an access. This is the only code that turns a value into
        an address; indices that are not provably in bounds are clamped."""
        listed = list(indices) if isinstance(indices, Sequence) else [indices]
        operands: list[SSAValue] = []
        places: list[AffineExpr] = []
        for index, size in zip(listed, self.shape, strict=True):
            if isinstance(index, int) and 0 <= index < size:
                places.append(AffineConstantExpr(index))
                continue
            value = self.writer.limited(self.writer.scalar(index, INDEX), size).value
            # Fold the expression into the access, where vectorisation recognises it.
            inner = value.owner if isinstance(value.owner, IndexOp) else None
            used = [value] if inner is None else list(inner.indices)
            dims: list[AffineExpr] = [AffineDimExpr(len(operands) + d) for d in range(len(used))]
            places.append(dims[0] if inner is None else substitute(inner.map.data.results[0], dims))
            operands += used
        return unique_operands(AffineMap(len(operands), 0, tuple(places)), operands)

    def __getitem__(self, indices: Operand | Sequence[Operand]) -> Scalar:
        if 0 in self.shape:
            return self.writer.scalar(0, self.dtype)
        map, operands = self._access(indices)
        load = LoadOp(self.value, map, operands)
        return Scalar(self.writer, self.writer.emitter.add(load), self.dtype)

    def __setitem__(self, indices: Operand | Sequence[Operand], value: Operand) -> None:
        if 0 in self.shape:
            return
        map, operands = self._access(indices)
        stored = self.writer.scalar(value, self.dtype)
        self.writer.block.add_op(StoreOp(stored.value, self.value, map, operands))


class Variable:
    """A mutable scalar of a kernel."""

    def __init__(self, buffer: Buffer):
        self._buffer = buffer

    def get(self) -> Scalar:
        """Return the current value."""
        return self._buffer[0]

    def set(self, value: Operand) -> None:
        """Set the value."""
        self._buffer[0] = value


class RowPart:
    """One vector of neighbouring elements along a last dimension.

    Args:
        first: the index at which the first vector of this kind starts.
        number: the position of this vector.
    """

    def __init__(self, writer: KernelWriter, first: int, number: Scalar, lanes: int):
        self._writer = writer
        self._first = first
        self._number = number
        self._lanes = lanes

    def variables(self, dtype: Attribute) -> Buffer:
        """Return one variable per element, indexed by its lane."""
        return self._writer.registers(self._lanes, dtype)

    @contextmanager
    def places(self) -> Generator[tuple[Scalar, Scalar]]:
        """Yield the index of each element in the dimension and its lane; all lanes run at once."""
        if self._lanes == 1:
            number = AffineDimExpr(0) + self._first
            op = IndexOp(AffineMap(1, 0, (number,)), [self._number.value])
            place = Scalar(self._writer, self._writer.emitter.add(op), INDEX)
            yield place, self._writer.scalar(0, INDEX)
            return
        with self._writer.lanes(self._number, self._lanes, self._first) as places:
            yield places

    @contextmanager
    def each(self) -> Generator[Scalar]:
        """Yield the index of each element in the dimension, one after the other."""
        with self._writer.loop(self._lanes) as lane:
            yield self._writer.place(self._number, self._lanes, lane, self._first)


class KernelWriter:
    """Builder of one `loop.func`.

    Args:
        name: the function's symbol.
        buffers: its arguments by name, inputs first: type, and the element type at the graph
            level, whose signedness selects the arithmetic.
        lanes: lanes of the vectors that a row is divided into, longest first.
    """

    def __init__(
        self,
        name: str,
        buffers: Mapping[str, tuple[AnyMemRef, Attribute]],
        lanes: Sequence[int] = LANES,
    ):
        self.name = name
        self._lanes = lanes
        types = [type_ for type_, _ in buffers.values()]
        self.block = Block(arg_types=types)
        self.emitter = Emitter(self.block, contract=True)
        self._types = types
        self._body = self.block
        self._buffers: dict[str, Buffer] = {}
        for (label, (_, dtype)), argument in zip(buffers.items(), self.block.args, strict=True):
            argument.name_hint = label
            self._buffers[label] = Buffer(self, argument, dtype)

    def __getitem__(self, name: str) -> Buffer:
        """Return an argument."""
        return self._buffers[name]

    def scalar(self, value: Operand, dtype: Attribute) -> Scalar:
        """Return a constant of type `dtype`; a `Scalar` is returned as it is.

        Raises:
            TypeError: a value has another type and would need a cast.
        """
        if isinstance(value, Scalar):
            if value.dtype != dtype:
                raise TypeError(f"a value of type {value.dtype} where {dtype} is expected")
            return value
        if dtype == INDEX:
            return Scalar(self, self.emitter.index_constant(int(value)), dtype)
        return Scalar(self, self.emitter.constant(value, dtype), dtype)

    def select(self, condition: Scalar, a: Operand, b: Operand, dtype: Attribute) -> Scalar:
        """Select `a` if the condition holds, else `b`; both are computed."""
        chosen = (self.scalar(a, dtype).value, self.scalar(b, dtype).value)
        return Scalar(self, self.emitter.add(SelectOp(condition.value, *chosen)), dtype)

    def order_type(self, dtype: Attribute) -> Attribute:
        """Return the type of `Scalar.order_key` for values of a type."""
        if not is_float(dtype):
            return dtype
        return i64 if dtype == f64 else i32

    def limited(self, index: Scalar, size: int) -> Scalar:
        """Clamp an index to `[0, size)` if it may be outside."""
        if not is_computed(index.value):
            return index
        low, high = ranges_at(self.block).integers(index.value)
        if low < 0:
            index = index.maximum(0)
        return index if high < size else index.minimum(size - 1)

    def variable(self, dtype: Attribute, value: Operand) -> Variable:
        """Declare a variable with an initial value."""
        variable = Variable(self._alloc((1,), dtype, Scope.REGISTER))
        variable.set(value)
        return variable

    def registers(self, count: int, dtype: Attribute) -> Buffer:
        """Declare `count` uninitialised variables."""
        return self._alloc((count,), dtype, Scope.REGISTER)

    def workspace(self, shape: Sequence[int], dtype: Attribute) -> Buffer:
        """Allocate an uninitialised buffer, live inside the innermost enclosing loop."""
        return self._alloc(shape, dtype, Scope.GLOBAL)

    def _alloc(self, shape: Sequence[int], dtype: Attribute, scope: Scope) -> Buffer:
        element = dtype if dtype == INDEX else storage_type(dtype)
        alloc = AllocOp(MemRefType(element, shape), scope)
        self.block.add_op(alloc)
        return Buffer(self, alloc.result, dtype)

    @contextmanager
    def loop(self, extent: int | Scalar, *, parallel: bool = False) -> Generator[Scalar]:
        """Open a loop from 0 to `extent`; parallel iterations may run in any order or at once.

        A computed extent (an index) makes a serial loop.
        """
        body = Block(arg_types=[INDEX])
        body.args[0].name_hint = "i"
        if isinstance(extent, Scalar):
            zero, one = self.scalar(0, INDEX).value, self.scalar(1, INDEX).value
            self.block.add_op(scf.ForOp(zero, extent.value, one, [], Region(body)))
            with self._inside(body):
                yield Scalar(self, body.args[0], INDEX)
            body.add_op(scf.YieldOp())
            return
        kind = LoopKind.PARALLEL if parallel and extent > 1 else LoopKind.SERIAL
        self.block.add_op(ForOp(extent, Region(body), kind))
        with self._inside(body):
            yield Scalar(self, body.args[0], INDEX)

    @contextmanager
    def loops(
        self, extents: Sequence[int | Scalar], *, parallel: bool = False
    ) -> Generator[list[Scalar]]:
        """Open a loop nest, outermost first."""
        with ExitStack() as stack:
            yield [stack.enter_context(self.loop(e, parallel=parallel)) for e in extents]

    def parts(
        self, extent: int, *, parallel: bool = False
    ) -> Generator[AbstractContextManager[RowPart]]:
        """Divide a last dimension into vectors, with shorter vectors for the remainder, each kind
        in its own loop:

            for parts in k.parts(extent):
                with parts as part, part.places() as (place, lane):
                    ...
        """
        first = 0
        for lanes in (*self._lanes, 1):
            count = (extent - first) // lanes
            if count:
                yield self._parts(first, count, lanes, parallel=parallel)
            first += count * lanes

    @contextmanager
    def _parts(self, first: int, count: int, lanes: int, *, parallel: bool) -> Generator[RowPart]:
        with self.loop(count, parallel=parallel) as number:
            yield RowPart(self, first, number, lanes)

    @contextmanager
    def lanes(self, part: Scalar, count: int, first: int = 0) -> Generator[tuple[Scalar, Scalar]]:
        """Yield the index and the lane of each element of one vector; all lanes run at once."""
        body = Block(arg_types=[INDEX])
        body.args[0].name_hint = "lane"
        # Code inside asks the enclosing loops for the ranges of their variables.
        self.block.add_op(ForOp(count, Region(body), LoopKind.VECTORIZED))
        with self._inside(body):
            lane = Scalar(self, body.args[0], INDEX)
            yield self.place(part, count, lane, first), lane

    def place(self, number: Scalar, size: int, inner: Scalar, first: int = 0) -> Scalar:
        """Return the index of element `inner` of part `number`; parts have `size` elements."""
        place = AffineDimExpr(0) * size + AffineDimExpr(1) + first
        op = IndexOp(AffineMap(2, 0, (place,)), [number.value, inner.value])
        return Scalar(self, self.emitter.add(op), INDEX)

    @contextmanager
    def when(self, condition: Scalar) -> Generator[None]:
        """Open a branch that runs only if a condition holds."""
        body = Block()
        self.block.add_op(scf.IfOp(condition.value, [], Region(body)))
        with self._inside(body):
            yield
        body.add_op(scf.YieldOp())

    @contextmanager
    def _inside(self, block: Block) -> Generator[None]:
        outer = self.block, self.emitter
        self.block, self.emitter = block, Emitter(block, contract=True)
        yield
        self.block, self.emitter = outer

    def finish(self) -> FuncOp:
        """Return the finished function."""
        return FuncOp(self.name, self._types, Region(self._body))
