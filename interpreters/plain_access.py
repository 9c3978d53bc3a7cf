"""Addresses, checks and memory accesses in the plain translation of the loop dialect.

An index that ranges do not prove to be in bounds is checked at run time. Conflicting accesses of a
parallel loop's iterations are tracked: see `ParallelLoop`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.size import extents_of
from tcopt.interpreters.plain_allocs import NewBuffers
from tcopt.interpreters.plain_scalars import floor_divide
from tcopt.interpreters.plain_text import (
    BYTES,
    PlainWriter,
    element_text,
    memory_text,
    number_text,
    type_text,
)
from tcopt.support.arithmetic.affine import bounds
from tcopt.support.arithmetic.intervals import UNBOUNDED, Range
from tcopt.support.arithmetic.sizes import Extent, lower_bound, to_affine
from tcopt.support.errors import UnsupportedError

_UNSIGNED = {AffineBinaryOpKind.FloorDiv: "udiv", AffineBinaryOpKind.Mod: "urem"}
"""Unsigned divisions, for non-negative dividends and positive divisors."""


@dataclass
class ParallelLoop:
    """A loop with iterations in any order, during the emission of its body.

    Every iteration has a unique number, larger than those of all earlier loops. If the loop writes
    a buffer from outside the loop, each element records the iteration that wrote it. An iteration
    that reads an element written by another one, or overwrites it with a different value, is a
    race.

    Attributes:
        first: number of the loop's first iteration, an i64 in IR.
        current: number of the current iteration.
        shadows: by buffer, the address of its elements' iteration numbers.
    """

    first: str
    current: str
    shadows: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])


@dataclass
class Accesses:
    """Emits index arithmetic and memory accesses of a function.

    Attributes:
        new_buffers: the function's allocations.
        values: the LLVM operand of each value.
        ranges: of index values.
        faults: messages of runs that end early; the run returns the index plus 1.
        parallel: the enclosing parallel loops, outermost first.
        sizes: the LLVM operand of each extent that is a size.
    """

    writer: PlainWriter
    new_buffers: NewBuffers
    values: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    ranges: dict[SSAValue, Range] = field(default_factory=dict[SSAValue, Range])
    faults: list[str] = field(default_factory=list[str])
    parallel: list[ParallelLoop] = field(default_factory=list[ParallelLoop])
    sizes: dict[Extent, str] = field(default_factory=dict[Extent, str])

    def size(self, extent: Extent) -> str:
        """Return an extent, an i64."""
        return self.sizes.get(extent, str(extent))

    def extents(self, buffer: SSAValue) -> list[str]:
        """Return the live extents of a buffer, each an i64."""
        return [self.size(extent) for extent in extents_of(buffer.type)]

    def declare(self, extents: Iterable[Extent], names: Mapping[str, SSAValue]) -> None:
        """Emit the values of extents that are sizes, given the value of each name."""
        places = {name: place for place, name in enumerate(names)}
        for extent in extents:
            if isinstance(extent, int) or extent in self.sizes:
                continue
            expr = to_affine(extent, places)
            if expr is None:
                raise UnsupportedError(f"the extent {extent} is not affine in its sizes")
            self.sizes[extent] = self.index(expr, list(names.values()))

    def index(self, expr: AffineExpr, operands: Sequence[SSAValue]) -> str:
        """Emit an index expression; return its value, an i64."""
        match expr:
            case AffineConstantExpr():
                return str(expr.value)
            case AffineDimExpr():
                return self.values[operands[expr.position]]
            case AffineBinaryOpExpr():
                lhs, rhs = self.index(expr.lhs, operands), self.index(expr.rhs, operands)
                word = _UNSIGNED.get(expr.kind)
                if word is not None and rhs.isdigit() and self.range_of(expr.lhs, operands)[0] >= 0:
                    return self.writer.assign(f"{word} i64 {lhs}, {rhs}")
                return self._combine(expr.kind, lhs, rhs)
            case _:
                raise UnsupportedError(f"index expression {expr}")

    def _combine(self, kind: AffineBinaryOpKind, lhs: str, rhs: str) -> str:
        w = self.writer
        match kind:
            case AffineBinaryOpKind.Add:
                return w.assign(f"add i64 {lhs}, {rhs}")
            case AffineBinaryOpKind.Mul:
                return w.assign(f"mul i64 {lhs}, {rhs}")
            case AffineBinaryOpKind.FloorDiv:
                return floor_divide(w, lhs, rhs)[0]
            case AffineBinaryOpKind.CeilDiv:
                negated = w.assign(f"sub i64 0, {lhs}")
                return w.assign(f"sub i64 0, {floor_divide(w, negated, rhs)[0]}")
            case _:
                return floor_divide(w, lhs, rhs)[1]

    def range_of(self, expr: AffineExpr, operands: Sequence[SSAValue]) -> Range:
        """Return the minimum and maximum of an index expression."""
        return bounds(expr, [self.ranges.get(value, UNBOUNDED) for value in operands])

    def inside(self, index: str, extent: int | str) -> str:
        """Return an i1 for 0 <= index < extent."""
        return self.writer.assign(f"icmp ult i64 {index}, {extent}")

    def fail_unless(self, condition: str, message: str, value: str = "0") -> None:
        """Emit code that ends the run with a message and a number, unless an i1 holds."""
        w = self.writer
        self.faults.append(message)
        bad, good = w.label(), w.label()
        w.line(f"br i1 {condition}, label %{good}, label %{bad}")
        w.start(bad)
        w.line(f"store i64 {value}, ptr %detail")
        w.line(f"ret i64 {len(self.faults)}")
        w.start(good)

    def places(
        self, op: loop.LoadOp | loop.StoreOp, vector: Attribute
    ) -> list[tuple[list[str], list[bool]]]:
        """Return, for each lane, the index along each dimension, and which of them may be out of
        bounds.
        """
        w, shape = self.writer, extents_of(op.memref.type)
        starts = [self.index(expr, op.indices) for expr in op.map.data.results]
        doubtful: list[bool] = []
        for expr, extent, (below, above) in zip(
            op.map.data.results, shape, op.lane_reaches, strict=True
        ):
            low, high = self.range_of(expr, op.indices)
            doubtful.append(low + below < 0 or not high + above < lower_bound(extent))
        extents = vector_shape(vector)
        found: list[tuple[list[str], list[bool]]] = []
        for lane in range(prod(extents)):
            steps = lane_offsets(op.lane_steps, extents, lane, len(shape))
            places = [
                w.assign(f"add i64 {start}, {step}") if step else start
                for start, step in zip(starts, steps, strict=True)
            ]
            found.append((places, doubtful))
        return found

    def address(self, buffer: SSAValue, places: Sequence[str]) -> tuple[str, str]:
        """Return a pointer to an element, and its position in row-major order."""
        w, flat = self.writer, "0"
        for place, extent in zip(places, self.extents(buffer), strict=True):
            if flat != "0":
                flat = w.assign(f"mul i64 {flat}, {extent}")
            flat = place if flat == "0" else w.assign(f"add i64 {flat}, {place}")
        element = memory_text(element_type(buffer))
        pointer = self.values[buffer]
        return w.assign(f"getelementptr {element}, ptr {pointer}, i64 {flat}"), flat

    def read(self, buffer: SSAValue, places: Sequence[str], who: str) -> str:
        """Emit a load of an element at indices that are in bounds."""
        w, type_ = self.writer, element_type(buffer)
        pointer, flat = self.address(buffer, places)
        for around in self.parallel:
            if buffer in around.shadows:
                other = self._other(around, buffer, flat)[1]
                mine = w.assign(f"xor i1 {other}, true")
                self.fail_unless(
                    mine,
                    f"{who}: two iterations of a parallel loop race: one reads the element of "
                    f"{name_of(buffer)} that the other writes, element",
                    flat,
                )
        memory, value = memory_text(type_), element_text(type_)
        loaded = w.assign(f"load {memory}, ptr {pointer}")
        return loaded if memory == value else w.assign(f"trunc {memory} {loaded} to {value}")

    def write(self, buffer: SSAValue, places: Sequence[str], value: str, who: str) -> None:
        """Emit a store of an element at indices that are in bounds."""
        w, type_ = self.writer, element_type(buffer)
        pointer, flat = self.address(buffer, places)
        memory, scalar = memory_text(type_), element_text(type_)
        if memory != scalar:
            value = w.assign(f"zext {scalar} {value} to {memory}")
        for around in self.parallel:
            if buffer not in around.shadows:
                continue
            shadow, other = self._other(around, buffer, flat)
            with w.when(other):
                old = w.assign(f"load {memory}, ptr {pointer}")
                same = self._same_bits(memory, old, value)
                self.fail_unless(
                    same,
                    f"{who}: two iterations of a parallel loop race: both write the element of "
                    f"{name_of(buffer)}, element",
                    flat,
                )
            w.line(f"store i64 {around.current}, ptr {shadow}")
        self.new_buffers.stored(buffer, flat)
        w.line(f"store {memory} {value}, ptr {pointer}")

    def _same_bits(self, type_: str, a: str, b: str) -> str:
        bits = {"half": "i16", "bfloat": "i16", "float": "i32", "double": "i64"}.get(type_)
        if bits is not None:
            a, b = (self.writer.assign(f"bitcast {type_} {each} to {bits}") for each in (a, b))
        return self.writer.assign(f"icmp eq {bits or type_} {a}, {b}")

    def _other(self, around: ParallelLoop, buffer: SSAValue, flat: str) -> tuple[str, str]:
        """Return the address of an element's last writer, and whether that is another iteration."""
        w = self.writer
        shadow = w.assign(f"getelementptr i64, ptr {around.shadows[buffer]}, i64 {flat}")
        last = w.assign(f"load i64, ptr {shadow}")
        recent = w.assign(f"icmp uge i64 {last}, {around.first}")
        foreign = w.assign(f"icmp ne i64 {last}, {around.current}")
        return shadow, w.assign(f"and i1 {recent}, {foreign}")

    def _as_one(self, op: loop.LoadOp | loop.StoreOp, vector: Attribute) -> tuple[str, str] | None:
        """Return a pointer to a contiguous vector that is known to be in bounds, and the row-major
        position of its first element; None for other accesses.
        """
        element = element_type(op.memref)
        if op.mask is not None or memory_text(element) != element_text(element):
            return None
        if any(op.memref in around.shadows for around in self.parallel):
            return None
        shape, extents = extents_of(op.memref.type), vector_shape(vector)
        for expr, extent, (below, above) in zip(
            op.map.data.results, shape, op.lane_reaches, strict=True
        ):
            low, high = self.range_of(expr, op.indices)
            if low + below < 0 or not high + above < lower_bound(extent):
                return None
        for lane in range(prod(extents)):
            offset: Extent = 0
            steps = lane_offsets(op.lane_steps, extents, lane, len(shape))
            for step, extent in zip(steps, shape, strict=True):
                offset = offset * extent + step
            if offset != lane:
                return None
        places = [self.index(expr, op.indices) for expr in op.map.data.results]
        return self.address(op.memref, places)

    def load(self, op: loop.LoadOp, who: str) -> str:
        """Emit a load, lane by lane unless it is contiguous and in bounds."""
        w = self.writer
        if is_vector(op.result.type):
            address = self._as_one(op, op.result.type)
            if address is not None:
                pointer, _ = address
                align = f"align {BYTES[memory_text(element_type(op.memref))]}"
                return w.assign(f"load {type_text(op.result.type)}, ptr {pointer}, {align}")
        element = element_text(element_type(op.memref))
        default = zero_text(element) if op.default is None else number_text(op.default)
        masks = self._masks(op.mask)
        lanes: list[str] = []
        for lane, (places, doubtful) in enumerate(self.places(op, op.result.type)):
            conditions = [] if masks is None else [masks[lane]]
            if op.default is not None:
                conditions += self._insides(op.memref, places, doubtful)

            def read(places: list[str] = places, doubtful: list[bool] = doubtful) -> str:
                if op.default is None:
                    self.check(op.memref, places, doubtful, who)
                return self.read(op.memref, places, who)

            condition = w.all_of(conditions)
            lanes.append(w.choose(condition, element, read, default) if conditions else read())
        return w.gather(lanes, element) if is_vector(op.result.type) else lanes[0]

    def store(self, op: loop.StoreOp, who: str) -> None:
        """Emit a store, lane by lane unless it is contiguous and in bounds."""
        w = self.writer
        if is_vector(op.value.type):
            address = self._as_one(op, op.value.type)
            if address is not None:
                pointer, first = address
                self.new_buffers.stored(op.memref, first, prod(vector_shape(op.value.type)))
                align = f"align {BYTES[memory_text(element_type(op.memref))]}"
                type_ = type_text(op.value.type)
                w.line(f"store {type_} {self.values[op.value]}, ptr {pointer}, {align}")
                return
        element = element_text(element_type(op.memref))
        value = self.values[op.value]
        count = prod(vector_shape(op.value.type))
        values = w.lanes(value, element, count) if is_vector(op.value.type) else [value]
        masks = self._masks(op.mask)
        for lane, (places, doubtful) in enumerate(self.places(op, op.value.type)):
            if masks is None:
                self.check(op.memref, places, doubtful, who)
                self.write(op.memref, places, values[lane], who)
                continue
            with w.when(masks[lane]):
                self.check(op.memref, places, doubtful, who)
                self.write(op.memref, places, values[lane], who)

    def _masks(self, mask: SSAValue | None) -> list[str] | None:
        if mask is None:
            return None
        return self.writer.lanes(self.values[mask], "i1", prod(vector_shape(mask.type)))

    def _insides(
        self, buffer: SSAValue, places: Sequence[str], doubtful: Sequence[bool]
    ) -> list[str]:
        parts = zip(places, doubtful, self.extents(buffer), strict=True)
        return [self.inside(place, extent) for place, doubt, extent in parts if doubt]

    def check(
        self, buffer: SSAValue, places: Sequence[str], doubtful: Sequence[bool], who: str
    ) -> None:
        """Emit code that ends the run if an index is out of bounds."""
        for dim, (place, doubt, extent) in enumerate(
            zip(places, doubtful, self.extents(buffer), strict=True)
        ):
            if doubt:
                self.fail_unless(
                    self.inside(place, extent),
                    f"{who}: an index of {name_of(buffer)} is outside of dimension {dim}, "
                    f"which has {extents_of(buffer.type)[dim]} elements: index",
                    place,
                )


def buffer_shape(buffer: SSAValue) -> tuple[int, ...]:
    """Return the extents of a buffer."""
    type_ = buffer.type
    assert isa(type_, MemRefType)
    return tuple(type_.get_shape())


def element_type(buffer: SSAValue) -> Attribute:
    """Return the type of a buffer's elements."""
    type_ = buffer.type
    assert isa(type_, MemRefType)
    return type_.get_element_type()


def name_of(buffer: SSAValue) -> str:
    """Return the name of a buffer in messages."""
    return f"%{buffer.name_hint}" if buffer.name_hint else f"a {buffer.type}"


def describe(op: Operation) -> str:
    """Return how messages name an op: by its block, or by the op itself."""
    parent: Operation | None = op
    while parent is not None and not isinstance(parent, loop.BlockOp):
        parent = parent.parent_op()
    return f'block "{parent.block_name.data}"' if parent is not None else f"'{op.name}'"


def is_vector(type_: Attribute) -> bool:
    return type_text(type_).startswith("<")


def vector_shape(type_: Attribute) -> tuple[int, ...]:
    """Return the extents of a vector; () for a scalar."""
    from xdsl.dialects.builtin import VectorType

    return tuple(type_.get_shape()) if isa(type_, VectorType) else ()


def lane_offsets(
    steps: Sequence[Sequence[int]], extents: Sequence[int], lane: int, rank: int
) -> list[int]:
    """Return the offset of lane number `lane`, counted in row-major order, along each dimension."""
    offsets, inner = [0] * rank, prod(extents)
    for row, extent in zip(steps, extents, strict=False):
        inner //= extent
        position = lane // inner % extent
        offsets = [offset + position * step for offset, step in zip(offsets, row, strict=True)]
    return offsets


def zero_text(element: str) -> str:
    return "0" if element.startswith("i") else "0.0" if element != "bfloat" else "0xR0000"
