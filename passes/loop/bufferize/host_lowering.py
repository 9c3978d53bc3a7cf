"""Bufferization of host functions: allocation of buffers, and in-place results."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from xdsl.builder import Builder
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    FunctionType,
    IndexType,
    IntegerAttr,
    LocationAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    UnrealizedConversionCastOp,
    i8,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects import loop, te
from tcopt.dialects.graph.control.scan import ScanOp
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.donation import DONATED, IN_PLACE, names_in, pairs_of, set_pairs
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.dialects.graph.core.weights import WeightStore, attach_weights, weights_of
from tcopt.dialects.loop.writer import LANES
from tcopt.dialects.memory_sizes import memref_bytes
from tcopt.dialects.size import (
    DefineOp,
    IndexOp,
    SizeValues,
    dims_attr,
    extents_of,
    function_symbols,
    sized_memref,
    static_type,
)
from tcopt.dialects.target import target_facts_of
from tcopt.dialects.te.function_sizes import FunctionSizes
from tcopt.dialects.te.names import symbols_of, unique_name
from tcopt.dialects.te.scalar import storage_type
from tcopt.passes.loop.bufferize.joins import Joins, is_join, origin_of, part_offsets, producer_of
from tcopt.passes.loop.bufferize.overwrites import find_overwrites, updated_argument
from tcopt.passes.loop.bufferize.stage_nests import AnyMemRef, copy_function, memref_of
from tcopt.passes.loop.bufferize.time_loops import TimeLoop
from tcopt.support.arithmetic.sizes import (
    Extent,
    Size,
    bounds_of,
    is_fixed,
    named_size,
    product,
)
from tcopt.support.errors import PassFailedError, UndecidedSize
from tcopt.support.ir.rewriting import erase
from tcopt.support.locations import set_location
from tcopt.support.syntax.canonical_text import canonical_text


class _Callee(NamedTuple):
    """The function of an operator that is written as loops, and its sizes in a call."""

    name: str
    sizes: tuple[Size, ...]


class HostLowering:
    """Lowering of a module's host functions, which share copy functions.

    Attributes:
        buffers: the buffer of each tensor.
        joins: values that are stored inside another value's buffer.
        targets: functions that return the buffer to which a call must write a result.
        donated: arguments of the function that are overwritten by a result.
        overwrites: ops whose first result overwrites an operand.
        forwarded: those of them whose operand is computed in the result's target buffer.
        builder: insertion point of calls and views.
        lanes: vector lengths for operators that are written as loops, the longest first.
        setup: insertion point of buffers, weights and sizes: before the outermost time loop.
        sizes: values of the function's sizes.
    """

    def __init__(self, module: ModuleOp):
        self.module = module
        target = target_facts_of(module)
        self.lanes = () if target is not None and target.lanes_are_threads else LANES
        self.copies: dict[Attribute, str] = {}
        self.opaque: dict[object, _Callee] = {}
        self.sized: dict[str, str] = {}
        """Names of functions of operators over sizes, by their text without the name."""
        self.names = symbols_of(module)
        self.buffers: dict[SSAValue, SSAValue] = {}
        self.targets: dict[SSAValue, Callable[[], SSAValue]] = {}
        self.joins = Joins()
        self.wholes: dict[SSAValue, SSAValue] = {}
        self.donated: set[SSAValue] = set()
        self.overwrites: set[Operation] = set()
        self.forwarded: set[Operation] = set()
        self.builder = self.setup = Builder(InsertPoint.at_end(module.body.block))
        self.sizes = self._size_values({})

    def lower(self, function: func.FuncOp) -> func.FuncOp:
        """Return the bufferized form of a host function.

        Its arguments are inputs, results, and an index for each size.
        """
        old = function.body.block
        type_ = function.function_type
        symbols = function_symbols(function)
        arg_types = [memref_of(t) for t in (*type_.inputs.data, *type_.outputs.data)]
        block = Block(arg_types=[*arg_types, *(IndexType() for _ in symbols)])
        sizes = {s.name: a for s, a in zip(symbols, block.args[len(arg_types) :], strict=True)}
        for name, argument in sizes.items():
            argument.name_hint = name
        self.builder = self.setup = Builder(InsertPoint.at_end(block))
        self.sizes = self._size_values(sizes)
        self.buffers, self.targets, self.joins, self.wholes = {}, {}, Joins(), {}
        self.donated = set()
        for source, argument in zip(old.args, block.args, strict=False):
            argument.name_hint = source.name_hint
            self.buffers[source] = argument
        last = old.last_op
        if not isinstance(last, func.ReturnOp):
            raise PassFailedError("does not end in func.return", op=function)
        outputs = block.args[len(old.args) : len(arg_types)]
        in_place = self._donate(function, last) if function.sym_name.data == "main" else {}
        results = list(zip(last.arguments, outputs, strict=True))
        pending = self._choose_targets(function, results, in_place)
        self.forward_targets(old, function.location)
        self.lower_ops(old)
        for value, argument in pending:
            self.copy(self.buffers[value], argument, function.location)
        self.builder.insert(func.ReturnOp()).location = last.location
        _erase_unused_views(block)
        new = func.FuncOp(
            function.sym_name.data,
            FunctionType.from_lists(list(block.arg_types), []),
            Region(block),
            function.sym_visibility,
        )
        new.attributes.update(function.attributes)
        new.location = function.location
        return new

    def _donate(self, function: func.FuncOp, last: func.ReturnOp) -> dict[int, int]:
        """Choose the donated arguments that are overwritten by their result.

        Returns:
            The number of the argument in whose buffer a result is, by the number of the result.
        """
        block = function.body.block
        inputs = names_in(self.module, "graph.inputs")
        outputs = names_in(self.module, "graph.outputs")
        pairs = {
            block.args[inputs.index(name)]: outputs.index(result)
            for name, result in pairs_of(self.module, DONATED).items()
        }
        overwrites = find_overwrites(block, pairs)
        found = {
            number: argument.index
            for argument, number in pairs.items()
            if updated_argument(last.arguments[number], overwrites) is argument
            and last.arguments[number].type == argument.type
        }
        self.donated = {block.args[index] for index in found.values()}
        set_pairs(self.module, IN_PLACE, {outputs[n]: inputs[i] for n, i in found.items()})
        return found

    def _choose_targets(
        self,
        function: func.FuncOp,
        results: Sequence[tuple[SSAValue, SSAValue]],
        in_place: Container[int],
    ) -> list[tuple[SSAValue, SSAValue]]:
        """Let calls write results in place, and return the results that need a copy.

        Args:
            in_place: numbers of the results in the buffer of an argument.
        """
        pending: list[tuple[SSAValue, SSAValue]] = []
        placed = {origin_of(value) for n, (value, _) in enumerate(results) if n in in_place}
        for position, (value, argument) in enumerate(results):
            argument.name_hint = f"out{position}" if len(results) > 1 else "out"
            producer, whole = producer_of(value), origin_of(value)
            if position in in_place:
                continue
            if whole in placed:
                pending.append((value, argument))
            elif is_join(whole) and whole not in self.wholes:
                self.wholes[whole] = self.bytes_of(argument, function.location)
            elif producer is None or producer in self.targets:
                pending.append((value, argument))
            else:
                self.targets[producer] = lambda a=argument, v=producer: self.view(
                    a, memref_of(v.type), function.location
                )
        return pending

    def forward_targets(self, block: Block, location: LocationAttr) -> None:
        """Compute operands that are overwritten in the buffer of the final result."""
        for op, origin in reversed(find_overwrites(block).items()):
            target = self.targets.get(op.results[0])
            if target is not None and origin not in self.targets:
                self.targets[origin] = lambda t=target, v=origin: self.view(
                    t(), memref_of(v.type), location
                )
                self.forwarded.add(op)

    def lower_ops(self, block: Block) -> None:
        self.joins.add(block, {*self.targets, *self.wholes})
        self.overwrites |= {
            op
            for op, origin in find_overwrites(block, self.donated).items()
            if op in self.forwarded
            or not {op.results[0], origin} & {*self.targets, *self.joins.places}
        }
        for op in block.ops:
            if not isinstance(op, func.ReturnOp):
                self._lower_op(op)

    def is_placed(self, result: SSAValue) -> bool:
        """Whether a result has to be in a buffer that others choose."""
        return result in self.targets or result in self.joins.places

    @contextmanager
    def own_targets(self) -> Generator[None]:
        """Forget afterwards where values of a step are written meanwhile."""
        outer = self.targets, self.wholes, self.overwrites, self.forwarded
        self.targets, self.wholes = dict(self.targets), dict(self.wholes)
        self.overwrites, self.forwarded = set(self.overwrites), set(self.forwarded)
        yield
        self.targets, self.wholes, self.overwrites, self.forwarded = outer

    def _lower_op(self, op: Operation) -> None:
        match op:
            case ScanOp(step=func.FuncOp() as step):
                TimeLoop(self, op, step).lower()
            case te.CallOp():
                self._lower_call(op)
            case DefineOp():
                self._lower_definition(op)
            case ConstantOp():
                self._lower_constant(op)
            case GraphOp(is_joined=True):
                self._lower_join(op)
            case OpaqueOp():
                self._lower_opaque(op)
            case UnrealizedConversionCastOp() | GraphOp(is_view=True):
                source = self.buffers[op.operands[0]]
                type_ = memref_of(op.results[0].type)
                self.buffers[op.results[0]] = self.view(source, type_, op.location)
            case GraphOp(subview_offset=int(offset)):
                self._lower_subview(op, offset)
            case _:
                hint = "run lower-graph-to-te first" if isinstance(op, GraphOp) else None
                raise PassFailedError("cannot be lowered to loops", op=op, hint=hint)

    def _lower_call(self, op: te.CallOp) -> None:
        outputs = [self.result_buffer(result, op.location) for result in op.res]
        arguments = [self.buffers[value] for value in op.arguments]
        call = loop.CallOp(op.callee.string_value(), [*arguments, *outputs], op.sizes)
        call.attributes.update(op.attributes)
        self.insert(call, op.location)

    def _lower_definition(self, op: DefineOp) -> None:
        if self.setup is not self.builder:
            raise PassFailedError("cannot define a size in a loop", op=op)
        new = DefineOp(self.buffers[op.count], op.size)
        new.result.name_hint = op.symbol.name
        self.insert(new, op.location)
        self.sizes.define(op.symbol.name, new.result)

    def _lower_opaque(self, op: OpaqueOp) -> None:
        """Call the op's own loop function, which equal ops share."""
        in_place = op in self.overwrites
        key = (
            op.name,
            op.variant,
            in_place,
            tuple(sorted(op.properties.items(), key=lambda item: item[0])),
            tuple(op.operand_types),
            tuple(op.result_types),
        )
        callee = self.opaque.get(key)
        if callee is None:
            callee = self.opaque[key] = self._define_opaque(op, in_place=in_place)
        buffers = [self.buffers[value] for value in op.operands]
        results = list(op.results)
        if in_place:
            assert op.OVERWRITES is not None
            result = results.pop(0)
            source = buffers[op.OVERWRITES]
            self.buffers[result] = self.view(source, memref_of(result.type), op.location)
        buffers += [self.result_buffer(result, op.location) for result in results]
        arguments = [self._signless(buffer, op.location) for buffer in buffers]
        call = loop.CallOp(callee.name, arguments, dims_attr(callee.sizes))
        call.attributes.update(op.attributes)
        self.insert(call, op.location)

    def _define_opaque(self, op: OpaqueOp, *, in_place: bool) -> _Callee:
        """Return an op's loop function. Ops over other sizes of the model may have the same."""
        sizes, name = FunctionSizes(), op.name.rpartition(".")[2]
        try:
            function = op.define(name, self.lanes, sizes, in_place=in_place)
        except (UndecidedSize, VerifyException) as error:
            raise PassFailedError(f"needs fixed extents: {error}", op=op) from error
        values = tuple(sizes.values)
        text = canonical_text(function, "f") if values else None
        if text in self.sized:
            return _Callee(self.sized[text], values)
        function.sym_name = StringAttr(unique_name(function.sym_name.data, self.names))
        if text is not None:
            self.sized[text] = function.sym_name.data
        set_location([function], op.location)
        self._add_function(function)
        return _Callee(function.sym_name.data, values)

    def _signless(self, buffer: SSAValue, location: LocationAttr) -> SSAValue:
        """Return a buffer with the element type in which values are stored."""
        assert isa(buffer.type, AnyMemRef)
        element = storage_type(buffer.type.get_element_type())
        return self.view(buffer, sized_memref(extents_of(buffer.type), element), location)

    def _add_function(self, function: loop.FuncOp | func.FuncOp) -> None:
        first = self.module.body.block.first_op
        assert first is not None
        self.module.body.block.insert_op_before(function, first)

    def result_buffer(self, result: SSAValue, location: LocationAttr) -> SSAValue:
        """Return the buffer for a result: the one that it must be written to, or a new one."""
        if result in self.targets:
            buffer = self.targets[result]()
        elif result in self.joins.places:
            buffer = self._placed(result, memref_of(result.type), 0)
        else:
            buffer = self.alloc(memref_of(result.type), location)
            buffer.name_hint = result.name_hint
        self.buffers[result] = buffer
        return buffer

    def _lower_join(self, op: GraphOp) -> None:
        """Set a joined value's buffer; copy the operands that were not written there directly."""
        (result,) = op.results
        for operand, offset in zip(op.operands, part_offsets(op), strict=True):
            if not self.joins.is_placed(operand, result, offset):
                part = self._placed(result, memref_of(operand.type), offset)
                self.copy(self.buffers[operand], part, op.location)
        self.buffers[result] = self._placed(result, memref_of(result.type), 0)

    def _lower_subview(self, op: GraphOp, offset: int) -> None:
        """Make the result a view of the operand's buffer; it is never written through the view."""
        source = self.bytes_of(self.buffers[op.operands[0]], op.location)
        (result,) = op.results
        part = self.part(source, offset, memref_of(result.type), op.location)
        part.name_hint = result.name_hint
        self.buffers[result] = part

    def _placed(self, value: SSAValue, type: AnyMemRef, offset: Extent) -> SSAValue:
        """Return a view of `type` at a byte offset in a value's data inside of a joined value's
        buffer.
        """
        whole, start = self.joins.place(value)
        if whole not in self.wholes:
            size = memref_bytes(memref_of(whole.type))
            self.wholes[whole] = self.alloc(MemRefType(i8, [size]), _location_of(whole))
            self.wholes[whole].name_hint = whole.name_hint
        part = self.part(self.wholes[whole], start + offset, type, _location_of(whole))
        part.name_hint = value.name_hint
        return part

    def alloc(self, type: AnyMemRef, location: LocationAttr) -> SSAValue:
        alloc = self.setup.insert(memref.AllocOp([], [], type))
        alloc.location = location
        return alloc.memref

    def _lower_constant(self, op: ConstantOp) -> None:
        name = op.weight_name
        literal = op.literal_value
        if name is None:
            assert literal is not None
            name = self._store().add(literal, "literal")
        weight = self.setup.insert(loop.WeightOp(name, memref_of(op.type)))
        weight.location = op.location
        weight.results[0].name_hint = op.result.name_hint
        self.buffers[op.result] = weight.results[0]

    def _store(self) -> WeightStore:
        store = weights_of(self.module)
        if store is None:
            store = WeightStore()
            attach_weights(self.module, store)
        return store

    def view(self, source: SSAValue, type: AnyMemRef, location: LocationAttr) -> SSAValue:
        """Return `source` as another shape or signedness."""
        if source.type == type:
            return source
        assert isa(source.type, AnyMemRef)
        extents = extents_of(type)
        if is_fixed(extents) and source.type.get_shape() != extents:
            shaped = MemRefType(source.type.get_element_type(), type.get_shape())
            source = self.insert(_reinterpret_cast(source, shaped), location).results[0]
        if source.type != type:
            cast = UnrealizedConversionCastOp.get([source], [type])
            source = self.insert(cast, location).results[0]
        return source

    def part(
        self, bytes: SSAValue, offset: Extent, type: AnyMemRef, location: LocationAttr
    ) -> SSAValue:
        """Return a typed view of a byte buffer at an offset."""
        assert isa(bytes.type, AnyMemRef)
        bytes = self.view(bytes, static_type(bytes.type), location)
        place = self.index(offset, location)
        view = self.insert(memref.ViewOp(bytes, place, [], static_type(type)), location)
        return self.view(view.results[0], type, location)

    def bytes_of(self, buffer: SSAValue, location: LocationAttr) -> SSAValue:
        """Return a contiguous buffer as bytes."""
        assert isa(buffer.type, AnyMemRef)
        flat = self._flat(buffer, location)
        bytes_ = MemRefType(i8, [memref_bytes(buffer.type)])
        return self.insert(UnrealizedConversionCastOp.get([flat], [bytes_]), location).results[0]

    def _flat(self, buffer: SSAValue, location: LocationAttr) -> SSAValue:
        """Return a contiguous buffer as one dimension."""
        assert isa(buffer.type, AnyMemRef)
        row = sized_memref([product(extents_of(buffer.type))], buffer.type.get_element_type())
        return self.view(buffer, row, location)

    def copy(self, source: SSAValue, target: SSAValue, location: LocationAttr) -> None:
        """Copy a buffer by a function that equal copies share."""
        source, target = self._flat(source, location), self._flat(target, location)
        assert isa(target.type, AnyMemRef)
        element = target.type.get_element_type()
        (count,) = extents_of(target.type)
        # The number of elements is the one size of a copy function.
        own = named_size("s0", *bounds_of(count)) if isinstance(count, Size) else count
        type_ = sized_memref([own], element)
        if type_ not in self.copies:
            parts = ["copy", *map(str, type_.get_shape()), str(element)]
            name = unique_name("_".join(parts), self.names)
            self.copies[type_] = name
            self._add_function(copy_function(name, type_, location))
        sizes = dims_attr([count])
        self.insert(loop.CallOp(self.copies[type_], [source, target], sizes), location)

    def insert(self, op: Operation, location: LocationAttr) -> Operation:
        op.location = location
        return self.builder.insert(op)

    def index(self, value: Extent, location: LocationAttr) -> SSAValue:
        """Return a number or a size as a value."""
        if isinstance(value, Size):
            return self.sizes.of(value)
        number = IntegerAttr(value, IndexType())
        return self.insert(arith.ConstantOp(number), location).results[0]

    def _size_values(self, arguments: Mapping[str, SSAValue]) -> SizeValues:
        """Return the values of sizes, computed before the outermost time loop."""

        def constant(number: int) -> SSAValue:
            value = IntegerAttr(number, IndexType())
            return self.setup.insert(arith.ConstantOp(value)).results[0]

        def apply(op_class: IndexOp, a: SSAValue, b: SSAValue) -> SSAValue:
            return self.setup.insert(op_class(a, b)).results[0]

        return SizeValues(arguments, constant, apply)


def _location_of(value: SSAValue) -> LocationAttr:
    assert isinstance(value.owner, Operation)
    return value.owner.location


def _erase_unused_views(block: Block) -> None:
    for op in reversed(list(block.ops)):
        for region in op.regions:
            _erase_unused_views(region.block)
        is_view = isinstance(
            op, memref.ReinterpretCastOp | memref.ViewOp | UnrealizedConversionCastOp | loop.SliceOp
        )
        if is_view and not any(result.uses for result in op.results):
            erase(op)


def _reinterpret_cast(source: SSAValue, type: AnyMemRef) -> memref.ReinterpretCastOp:
    shape = type.get_shape()
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return memref.ReinterpretCastOp.from_dynamic(source, [0], list(shape), strides, type)
