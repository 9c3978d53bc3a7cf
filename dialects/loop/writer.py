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

Extents may be sizes: a loop over a size runs to its value, and indices combine with sizes as with
numbers. Shapes of buffers have the sizes of the caller; the function has an argument for each.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import scf
from xdsl.dialects.builtin import FunctionType, MemRefType, f64, i32, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from tcopt.dialects.arith_ import SelectOp
from tcopt.dialects.loop.access import LoadOp, StoreOp
from tcopt.dialects.loop.attrs import LoopKind
from tcopt.dialects.loop.computed_indices import is_computed, ranges_at
from tcopt.dialects.loop.index_ops import IndexOp
from tcopt.dialects.loop.memory import AllocOp
from tcopt.dialects.loop.scopes import Scope
from tcopt.dialects.loop.structure import ForOp, FuncOp, is_size
from tcopt.dialects.loop.writer_scalar import INDEX, Operand, Scalar
from tcopt.dialects.size import extents_of, set_function_symbols, sized_memref
from tcopt.dialects.te.dtypes import is_float
from tcopt.dialects.te.function_sizes import FunctionSizes
from tcopt.dialects.te.scalar import Emitter, storage_type
from tcopt.support.arithmetic.affine import substitute
from tcopt.support.arithmetic.sizes import Extent, Size, lower_bound, upper_bound
from tcopt.support.syntax.access_syntax import unique_operands

AnyMemRef = MemRefType[Attribute]

LANES = 16, 8, 4
"""Lanes of vectors, longest first; a vector may occupy several registers."""


class Buffer:
    """A buffer of a kernel: `b[i, j]` reads an element and `b[i, j] = v` writes it.

    An out-of-bounds index is clamped to the nearest element. No clamp is emitted if loops, limits
    and the conditions of `when` prove the index in bounds. A buffer without elements reads as
    zero.

    Attributes:
        shape: its live extents, in sizes of the caller.
    """

    def __init__(
        self, writer: KernelWriter, value: SSAValue, dtype: Attribute, shape: Sequence[int]
    ):
        self.writer = writer
        self.value = value
        self.dtype = dtype
        self.shape = tuple(shape)

    def _access(
        self, indices: Operand | Sequence[Operand]
    ) -> tuple[AffineMap, list[SSAValue], set[int]]:
        """Return the map and operands of an access, and extents that may be 0 although the access
        runs. This is the only code that turns a value into an address; indices that are not
        provably in bounds are clamped."""
        listed = list(indices) if isinstance(indices, Sequence) else [indices]
        operands: list[SSAValue] = []
        places: list[AffineExpr] = []
        empty: set[int] = set()
        for index, size in zip(listed, self.shape, strict=True):
            if isinstance(index, int) and 0 <= index < lower_bound(size):
                places.append(AffineConstantExpr(index))
                continue
            given = self.writer.scalar(index, INDEX)
            value = self.writer.limited(given, size).value
            if lower_bound(size) < 1 and self.writer.may_exceed(given):
                empty.add(size)
            # Fold the expression into the access, where vectorisation recognises it.
            inner = value.owner if isinstance(value.owner, IndexOp) else None
            used = [value] if inner is None else list(inner.indices)
            dims: list[AffineExpr] = [AffineDimExpr(len(operands) + d) for d in range(len(used))]
            places.append(dims[0] if inner is None else substitute(inner.map.data.results[0], dims))
            operands += used
        return *unique_operands(AffineMap(len(operands), 0, tuple(places)), operands), empty

    def __getitem__(self, indices: Operand | Sequence[Operand]) -> Scalar:
        if 0 in self.shape:
            return self.writer.scalar(0, self.dtype)
        map, operands, empty = self._access(indices)
        load = LoadOp(self.value, map, operands)
        if not empty:
            return Scalar(self.writer, self.writer.emitter.add(load), self.dtype)
        found = self.writer.variable(self.dtype, 0)
        with self.writer.when_positive(empty):
            found.set(Scalar(self.writer, self.writer.emitter.add(load), self.dtype))
        return found.get()

    def __setitem__(self, indices: Operand | Sequence[Operand], value: Operand) -> None:
        if 0 in self.shape:
            return
        map, operands, empty = self._access(indices)
        stored = self.writer.scalar(value, self.dtype)
        with self.writer.when_positive(empty):
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
            place = self._writer.index(AffineDimExpr(0), [self._number.value], self._first)
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
        sizes: collects the sizes of the function, and their values in a call.
    """

    def __init__(
        self,
        name: str,
        buffers: Mapping[str, tuple[AnyMemRef, Attribute]],
        lanes: Sequence[int] = LANES,
        sizes: FunctionSizes | None = None,
    ):
        self.name = name
        self._lanes = lanes
        self._sizes = FunctionSizes() if sizes is None else sizes
        shapes = [cast("tuple[int, ...]", extents_of(type_)) for type_, _ in buffers.values()]
        types = [
            sized_memref(self._sizes.shape(shape), type_.element_type)
            for shape, (type_, _) in zip(shapes, buffers.values(), strict=True)
        ]
        self.block = Block(arg_types=types)
        self.emitter = Emitter(self.block, contract=True)
        self._function = FuncOp(name, types, Region(self.block))
        self._extents: dict[Size, SSAValue] = {}
        self._buffers: dict[str, Buffer] = {}
        for (label, (_, dtype)), shape, argument in zip(
            buffers.items(), shapes, self.block.args, strict=True
        ):
            argument.name_hint = label
            self._buffers[label] = Buffer(self, argument, dtype, shape)
        self._sizes.add_arguments(self.block)
        set_function_symbols(self._function, self._sizes.symbols)

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
        if isinstance(value, Size):
            return Scalar(self, self._extent(value), INDEX).cast(dtype)
        if dtype == INDEX:
            return Scalar(self, self.emitter.index_constant(int(value)), dtype)
        return Scalar(self, self.emitter.constant(value, dtype), dtype)

    def _extent(self, size: Size) -> SSAValue:
        """Return the value of a size, which is computed once, at the start of the function."""
        if size not in self._extents:
            expr, operands = self._expression(size)
            if expr == AffineDimExpr(0):
                self._extents[size] = operands[0]
            else:
                op = IndexOp(AffineMap(len(operands), 0, (expr,)), operands)
                body = self._function.body.block
                Builder(InsertPoint.at_start(body)).insert(op)
                self._extents[size] = op.result
        return self._extents[size]

    def _expression(self, size: Extent) -> tuple[AffineExpr, list[SSAValue]]:
        """Return an extent over the sizes of the function, which may become more."""
        found = self._sizes.expression(size)
        set_function_symbols(self._function, self._sizes.symbols)
        return found

    def index(self, place: AffineExpr, operands: Sequence[SSAValue], offset: int = 0) -> Scalar:
        """Return an affine expression over indices, plus an offset, as one index."""
        expr, sizes = self._expression(offset)
        dims: list[AffineExpr] = [AffineDimExpr(len(operands) + d) for d in range(len(sizes))]
        place, used = place + substitute(expr, dims), [*operands, *sizes]
        op = IndexOp(*unique_operands(AffineMap(len(used), 0, (place,)), used))
        return Scalar(self, self.emitter.add(op), INDEX)

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
        if isinstance(size, Size):
            # The range of an index has numbers, which do not prove that it is below a size.
            index = index if high < lower_bound(size) else index.minimum(size - 1)
            return index if low >= 0 and lower_bound(size) > 0 else index.maximum(0)
        if low < 0:
            index = index.maximum(0)
        return index if high < size else index.minimum(size - 1)

    def may_exceed(self, index: Scalar) -> bool:
        """Whether an index may be used where its extent is 0: it has no variable of a loop."""
        owner = index.value.owner
        used = owner.indices if isinstance(owner, IndexOp) else [index.value]
        return is_computed(index.value) or all(map(is_size, used))

    def variable(self, dtype: Attribute, value: Operand) -> Variable:
        """Declare a variable with an initial value."""
        variable = Variable(self._alloc((1,), dtype, Scope.REGISTER))
        variable.set(value)
        return variable

    def registers(self, count: int, dtype: Attribute) -> Buffer:
        """Declare `count` uninitialised variables."""
        return self._alloc((count,), dtype, Scope.REGISTER)

    def workspace(self, shape: Sequence[int], dtype: Attribute) -> Buffer:
        """Allocate an uninitialised buffer, live inside the innermost enclosing loop. It has room
        for the upper bounds of its extents."""
        return self._alloc(shape, dtype, Scope.GLOBAL)

    def _alloc(self, shape: Sequence[int], dtype: Attribute, scope: Scope) -> Buffer:
        element = dtype if dtype == INDEX else storage_type(dtype)
        alloc = AllocOp(MemRefType(element, [upper_bound(extent) for extent in shape]), scope)
        self.block.add_op(alloc)
        return Buffer(self, alloc.result, dtype, shape)

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
        most = upper_bound(extent)
        kind = LoopKind.PARALLEL if parallel and most > 1 else LoopKind.SERIAL
        limit = self._extent(extent) if isinstance(extent, Size) else None
        self.block.add_op(ForOp(most, Region(body), kind, limit=limit))
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
        first, rest = 0, extent
        for lanes in (*self._lanes, 1):
            count, rest = divmod(rest, lanes)
            if upper_bound(count):
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
        place = AffineDimExpr(0) * size + AffineDimExpr(1)
        return self.index(place, [number.value, inner.value], first)

    @contextmanager
    def when_positive(self, extents: Iterable[int]) -> Generator[None]:
        """Open a branch that runs if all extents are positive."""
        with ExitStack() as stack:
            for extent in extents:
                stack.enter_context(self.when(self.scalar(extent, INDEX) > 0))
            yield

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
        types = FunctionType.from_lists(list(self._function.body.block.arg_types), [])
        self._function.function_type = types
        return self._function
