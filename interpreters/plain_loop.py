"""Plain translation of the loop dialect to LLVM IR: a direct, unoptimised reference.

No pass of the compiler is involved, so it can check all of them. Loops run sequentially; iterations
of parallel loops run in a shuffled order and are checked for races. New buffers hold NaN or the
minimum integer; an out-of-bounds access ends the run with a message. The values stored by each
block are recorded next to the buffers: the last value at each point of the block's spatial
variables, which no schedule changes, independent of where and in which order the block runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IndexType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
)
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.loop.structure import size_ranges
from tcopt.dialects.size import extents_of, size_arguments
from tcopt.interpreters.plain_access import (
    Accesses,
    ParallelLoop,
    buffer_shape,
    describe,
    element_type,
    is_vector,
    vector_shape,
)
from tcopt.interpreters.plain_allocs import NewBuffers
from tcopt.interpreters.plain_scalars import emit_scalar
from tcopt.interpreters.plain_text import (
    PlainWriter,
    element_text,
    float_text,
    is_float_text,
    memory_text,
    number_text,
)
from tcopt.interpreters.plain_vectors import VECTOR_RULES, emit_intrinsic
from tcopt.support.arithmetic.intervals import range_below
from tcopt.support.arithmetic.sizes import lower_bound, upper_bound
from tcopt.support.errors import UnsupportedError

_MOST_TRACED = 1 << 25
_ALIGNMENT = 64


@dataclass(frozen=True)
class ObservedStage:
    """The values that a block stores, at each point of its spatial variables.

    Attributes:
        name: the block's name, with a number appended for further stores.
        op: the store.
        element: the element type; `shape`: the extents of the spatial variables.
        in_order: whether the spatial variables are the indices of the store, one by one.
    """

    name: str
    op: Operation
    element: Attribute
    shape: tuple[int, ...]
    in_order: bool


@dataclass(frozen=True)
class PlainFunction:
    """A translated function: `i64 @plain(arguments..., stages..., scratch, detail)`.

    Arguments are addresses: of buffers, and of an i64 for each size.
    `scratch` is `scratch_bytes` of zeros. It returns 0, or the number of a message in `faults` if
    it ended early; the i64 at `detail` is then appended to the message. `meanings` are third-party
    ops, which functions of these names compute.
    """

    text: str
    stages: tuple[ObservedStage, ...]
    scratch_bytes: int
    faults: tuple[str, ...]
    externals: frozenset[str]
    meanings: Mapping[str, Operation]


def translate(
    function: loop.FuncOp, *, shapes: Mapping[str, tuple[int, ...]] | None = None, seed: int = 0
) -> PlainFunction:
    """Translate a function.

    Args:
        shapes: of stages that are known from earlier runs. A block may have got further spatial
            variables after those, for indices into smaller buffers.
        seed: of the order in which parallel iterations run.
    Raises:
        UnsupportedError: an op cannot be translated.
    """
    return _Translator(function, shapes or {}, seed).result()


class _Translator:
    def __init__(self, function: loop.FuncOp, shapes: Mapping[str, tuple[int, ...]], seed: int):
        self.function = function
        self.shapes = shapes
        self.seed = seed
        self.writer = PlainWriter()
        self.accesses = Accesses(self.writer, NewBuffers(self.writer, self.reserve))
        self.values = self.accesses.values
        self.stages: list[ObservedStage] = []
        self.scratch = 8
        self.handlers: dict[type[Operation], Callable[[Any], None]] = {
            loop.ForOp: self.for_,
            loop.BlockOp: self.loop_block,
            loop.GuardOp: self.guard,
            loop.AllocOp: self.alloc,
            loop.LoadOp: self.load,
            loop.StoreOp: self.store,
            loop.BorderOp: self.border,
            loop.IndexOp: self.index,
            loop.MaskOp: self.mask,
            loop.IntrinOp: self.intrinsic,
            loop.InitOp: self.nothing,
            loop.PrefetchOp: self.nothing,
            loop.BarrierOp: self.barrier,
            ConstantOp: self.constant,
            scf.ForOp: self.structured,
            scf.IfOp: self.structured,
            scf.YieldOp: self.structured,
        }

    def result(self) -> PlainFunction:
        block, w = self.function.body.block, self.writer
        parameters = [f"ptr %p{number}" for number in range(len(block.args))]
        for number, argument in enumerate(block.args):
            self.values[argument] = f"%p{number}"
        self.sizes()
        # The iteration counter of parallel loops is in the first bytes of the scratch memory.
        w.line("store i64 0, ptr %scratch")
        self.block(block)
        w.line("ret i64 0")
        parameters += [f"ptr %t{number}" for number in range(len(self.stages))]
        parameters += ["ptr %scratch", "ptr %detail"]
        head = f"define i64 @plain({', '.join(parameters)}) {{\nentry:"
        body = "\n".join([head, *w.locals, *w.lines, "}"])
        tables = [f"{name} = {text}" for text, name in w.tables.items()]
        text = "\n".join([*w.declarations.values(), *tables, "", body, ""])
        return PlainFunction(
            text,
            tuple(self.stages),
            self.scratch,
            tuple(self.accesses.faults),
            frozenset(w.externals),
            w.meanings,
        )

    def sizes(self) -> None:
        """Load the sizes of the function, and compute the extents that depend on them."""
        names = size_arguments(self.function)
        for value in names.values():
            self.values[value] = self.writer.assign(f"load i64, ptr {self.values[value]}")
        self.accesses.ranges.update(size_ranges(self.function))
        buffers = [value for value in self.function.body.block.args if value.type != IndexType()]
        extents = [extent for value in buffers for extent in extents_of(value.type)]
        for op in self.function.walk() if names else ():
            if isinstance(op, loop.AllocOp):
                extents += extents_of(op.result.type)
            elif isinstance(op, loop.BlockOp):
                extents += op.live_domain
            elif isinstance(op, loop.BorderOp):
                extents += [end for side in op.sides() for box in side for end in box]
        self.accesses.declare(extents, names)

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Operation) -> None:
        write = self.handlers.get(type(op))
        if write is not None:
            write(op)
            return
        names = [self.values[operand] for operand in op.operands]
        rule = VECTOR_RULES.get(op.name)
        emit = emit_scalar if rule is None else rule
        self.values[op.results[0]] = emit(self.writer, op, names)

    def load(self, op: loop.LoadOp) -> None:
        self.values[op.result] = self.accesses.load(op, describe(op))

    def store(self, op: loop.StoreOp) -> None:
        self.accesses.store(op, describe(op))

    def intrinsic(self, op: loop.IntrinOp) -> None:
        emit_intrinsic(self.accesses, op, describe(op))

    def nothing(self, op: Operation) -> None:
        """Emit nothing: an init is part of its block, and a prefetch changes no value."""

    def barrier(self, op: loop.BarrierOp) -> None:
        raise UnsupportedError("the plain translation does not support barriers", op=op)

    # Control flow.

    def for_(self, op: loop.ForOp) -> None:
        w, count = self.writer, op.trip_count
        if not count:
            return
        variable = op.induction_variable
        self.accesses.ranges[variable] = (0, count - 1)
        if op.loop_kind is not loop.LoopKind.PARALLEL or count == 1:
            with w.loop(str(count)) as counter:
                self.values[variable] = counter
                self.body(op)
            return
        around = ParallelLoop(self.next_number(), "")
        around.shadows = {buffer: self.shadow(buffer) for buffer in written_buffers(op)}
        # A step that is coprime to the count visits all iterations, far from one another.
        step = next(s for s in range(int(count * 0.618) + 1, 2 * count + 2) if gcd(s, count) == 1)
        with w.loop(str(count)) as counter:
            scaled = w.assign(f"mul i64 {counter}, {step}")
            moved = w.assign(f"add i64 {scaled}, {1 + self.seed}")
            self.values[variable] = w.assign(f"urem i64 {moved}, {count}")
            around.current = self.next_number()
            self.accesses.parallel.append(around)
            self.body(op)
            self.accesses.parallel.pop()

    def body(self, op: loop.ForOp) -> None:
        """Run an iteration of a loop if it is below the loop's limit."""
        w, variable = self.writer, self.values[op.induction_variable]
        below = [] if op.limit is None else [f"icmp slt i64 {variable}, {self.values[op.limit]}"]
        with w.when(w.all_of([w.assign(each) for each in below])):
            self.block(op.body.block)

    def next_number(self) -> str:
        """Return a number that is larger than all earlier ones."""
        last = self.writer.assign("load i64, ptr %scratch")
        number = self.writer.assign(f"add i64 {last}, 1")
        self.writer.line(f"store i64 {number}, ptr %scratch")
        return number

    def shadow(self, buffer: SSAValue) -> str:
        """Return the address of a number for each element of a buffer, initially 0."""
        return self.reserve(8 * prod(buffer_shape(buffer)))

    def reserve(self, size: int) -> str:
        """Return the address of `size` bytes of scratch memory."""
        start = -(-self.scratch // _ALIGNMENT) * _ALIGNMENT
        self.scratch = start + size
        return self.writer.assign(f"getelementptr i8, ptr %scratch, i64 {start}")

    def alloc(self, op: loop.AllocOp) -> None:
        self.values[op.result] = self.accesses.new_buffers.allocate(op)

    def loop_block(self, op: loop.BlockOp) -> None:
        w, accesses = self.writer, self.accesses
        conditions: list[str] = []
        for value, expr, extent in zip(
            op.iter_vars, op.bindings.data.results, op.live_domain, strict=True
        ):
            place = self.values[value] = accesses.index(expr, op.operands)
            accesses.ranges[value] = range_below(upper_bound(extent))
            low, high = accesses.range_of(expr, op.operands)
            if low < 0 or not high < lower_bound(extent):
                live = accesses.sizes.get(extent, str(extent))
                conditions.append(accesses.inside(place, live))
        with w.when(w.all_of(conditions)):
            self.init(op)
            for inner in op.body.block.ops:
                self.op(inner)
            self.trace(op)

    def init(self, op: loop.BlockOp) -> None:
        if op.init is None:
            return
        firsts = [
            self.writer.assign(f"icmp eq i64 {self.values[value]}, 0")
            for value, kind in zip(op.iter_vars, op.iter_kinds, strict=True)
            if kind is loop.IterKind.REDUCE
        ]
        with self.writer.when(self.writer.all_of(firsts)):
            self.block(op.init.body.block)

    def trace(self, op: loop.BlockOp) -> None:
        """Record the values that the block stored."""
        w = self.writer
        spatial = [
            (value, extent)
            for value, kind, extent in zip(op.iter_vars, op.iter_kinds, op.domain, strict=True)
            if kind is loop.IterKind.SPATIAL
        ]
        shape = tuple(extent for _, extent in spatial)
        stores = [each for each in op.body.block.ops if isinstance(each, loop.StoreOp)]
        for number, store in enumerate(stores):
            name = f"{op.block_name.data}.{number}" if number else op.block_name.data
            known = self.shapes.get(name)
            if known is not None and shape[: len(known)] == known:
                shape = known
            if is_vector(store.value.type) or prod(shape) > _MOST_TRACED:
                continue
            flat = "0"
            for value, extent in spatial[: len(shape)]:
                flat = w.assign(f"mul i64 {flat}, {extent}")
                flat = w.assign(f"add i64 {flat}, {self.values[value]}")
            element = element_type(store.memref)
            memory, scalar = memory_text(element), element_text(element)
            kept = self.values[store.value]
            if memory != scalar:
                kept = w.assign(f"zext {scalar} {kept} to {memory}")
            base = f"%t{len(self.stages)}"
            pointer = w.assign(f"getelementptr {memory}, ptr {base}, i64 {flat}")
            w.line(f"store {memory} {kept}, ptr {pointer}")
            self.stages.append(
                ObservedStage(name, store, element, shape, _in_order(store, spatial))
            )

    def guard(self, op: loop.GuardOp) -> None:
        accesses = self.accesses
        conditions = [
            accesses.inside(accesses.index(expr, op.indices), extent)
            for expr, extent in zip(op.map.data.results, op.condition_extents, strict=True)
        ]
        with self.writer.when(self.writer.all_of(conditions)):
            self.block(op.body.block)

    def structured(self, op: scf.ForOp | scf.IfOp | scf.YieldOp) -> None:
        w = self.writer
        if op.results or (isinstance(op, scf.YieldOp) and op.operands):
            raise UnsupportedError(
                "the plain translation does not support structured ops with results", op=op
            )
        match op:
            case scf.ForOp():
                low, high, step = (self.values[each] for each in (op.lb, op.ub, op.step))
                span = w.assign(f"sub i64 {high}, {low}")
                less = w.assign(f"sub i64 {step}, 1")
                trips = w.assign(f"sdiv i64 {w.assign(f'add i64 {span}, {less}')}, {step}")
                with w.loop(trips) as counter:
                    moved = w.assign(f"mul i64 {counter}, {step}")
                    self.values[op.body.block.args[0]] = w.assign(f"add i64 {low}, {moved}")
                    self.block(op.body.block)
            case scf.IfOp():
                condition = self.values[op.cond]
                with w.when(condition):
                    self.block(op.true_region.block)
                if op.false_region.blocks:
                    with w.when(w.assign(f"xor i1 {condition}, true")):
                        self.block(op.false_region.block)
            case _:
                pass

    # Ops on values.

    def border(self, op: loop.BorderOp) -> None:
        """Write the elements outside of the box, side by side."""
        value = number_text(op.value)
        for side in op.sides():
            first, extents = ([self.accesses.size(end) for end in box] for box in side)
            self.box(op, list(zip(first, extents, strict=True)), [], value)

    def box(
        self, op: loop.BorderOp, spans: Sequence[tuple[str, str]], places: list[str], value: str
    ) -> None:
        if not spans:
            self.accesses.write(op.buffer, places, value, "'loop.border'")
            return
        (first, extent), *rest = spans
        with self.writer.loop(extent) as counter:
            place = self.writer.assign(f"add i64 {counter}, {first}")
            self.box(op, rest, [*places, place], value)

    def index(self, op: loop.IndexOp) -> None:
        expr = op.map.data.results[0]
        self.values[op.result] = self.accesses.index(expr, op.indices)
        self.accesses.ranges[op.result] = self.accesses.range_of(expr, op.indices)

    def mask(self, op: loop.MaskOp) -> None:
        w = self.writer
        firsts = [self.accesses.index(expr, op.indices) for expr in op.map.data.results]
        flags: list[str] = []
        for lane in range(prod(vector_shape(op.result.type))):
            places = [
                w.assign(f"add i64 {first}, {step * lane}")
                for first, (_, step) in zip(firsts, op.conditions, strict=True)
            ]
            pairs = zip(places, op.conditions, strict=True)
            flags.append(w.all_of([self.accesses.inside(p, extent) for p, (extent, _) in pairs]))
        self.values[op.result] = w.gather(flags, "i1")

    def constant(self, op: ConstantOp) -> None:
        value, type_ = op.value, op.result.type
        if not isa(value, DenseIntOrFPElementsAttr):
            self.values[op.result] = number_text(value)
            if not is_float_text(element_text(type_)):
                number = int(self.values[op.result])
                self.accesses.ranges[op.result] = (number, number)
            return
        element = element_text(value.get_element_type())
        numbers = [number for number in value.get_values() if isinstance(number, int | float)]
        texts = [
            float_text(each, element) if is_float_text(element) else str(int(each))
            for each in numbers
        ]
        count = prod(vector_shape(type_))
        texts = texts * count if len(texts) == 1 else texts
        self.values[op.result] = self.writer.gather(texts, element)


def _in_order(store: loop.StoreOp, spatial: Sequence[tuple[SSAValue, int]]) -> bool:
    """Whether a store's indices are the block's spatial variables, shifted by constants at most."""
    places: list[SSAValue] = []
    for expr in store.map.data.results:
        term = expr.lhs if isinstance(expr, AffineBinaryOpExpr) else expr
        shift = expr.rhs if isinstance(expr, AffineBinaryOpExpr) else None
        if isinstance(term, AffineDimExpr) and isinstance(shift, AffineConstantExpr | None):
            if shift is not None and expr.kind is not AffineBinaryOpKind.Add:  # pyright: ignore
                return False
            places.append(store.indices[term.position])
        elif not isinstance(expr, AffineConstantExpr):
            return False
    return places == [value for value, extent in spatial if extent > 1 or value in places]


def written_buffers(op: loop.ForOp | loop.FuncOp) -> list[SSAValue]:
    """Return the buffers from outside a loop or function that it writes."""
    inner = {each.result for each in op.walk() if isinstance(each, loop.AllocOp)}
    written: dict[SSAValue, None] = {}
    for each in op.walk():
        match each:
            case loop.StoreOp():
                written[each.memref] = None
            case loop.BorderOp():
                written[each.buffer] = None
            case loop.IntrinOp():
                written |= dict.fromkeys(each.outputs)
            case _:
                pass
    return [buffer for buffer in written if buffer not in inner]


__all__ = ["PlainFunction", "ObservedStage", "translate", "written_buffers"]
