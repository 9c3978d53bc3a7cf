"""Lowering of host functions: calls of kernels, and buffers with sizes.

A walk by hand: types change from the arguments on.
"""

from __future__ import annotations

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.memory_sizes import element_bytes
from tcopt.dialects.size import (
    BYTES,
    SYMBOLS,
    DefineOp,
    DimsAttr,
    IndexOp,
    SizeValues,
    dynamic_type,
    extents_of,
    function_symbols,
    row_major,
    set_buffer_types,
    size_arguments,
    sized,
    sized_memref,
    static_type,
    view_of,
)
from tcopt.support.arithmetic.sizes import Extent, is_fixed, product
from tcopt.support.errors import PassFailedError
from tcopt.support.ir.rewriting import replace

AnyMemRef = MemRefType[Attribute]


def lower_host(function: func.FuncOp) -> None:
    """Lower the calls of a host function, and sizes to dynamic dimensions and index arithmetic.

    A declaration has the types of its calls.
    """
    if not function.is_declaration:
        _HostFunction(function).lower()
    elif SYMBOLS in function.attributes:
        type_ = function.function_type
        inputs = list(map(dynamic_type, type_.inputs))
        function.function_type = FunctionType.from_lists(inputs, list(type_.outputs))
        del function.attributes[SYMBOLS]


class _HostFunction:
    """A host function with its sizes, which are computed at its start.

    Attributes:
        extents: live extents of the buffers whose types are lowered.
        last: the last op that computes sizes.
    """

    def __init__(self, function: func.FuncOp):
        self.function = function
        self.last: Operation | None = None
        self.constants: dict[int, SSAValue] = {}
        self.extents: dict[SSAValue, tuple[Extent, ...]] = {}
        self.sizes = SizeValues(size_arguments(function), self._constant, self._apply)

    def lower(self) -> None:
        block = self.function.body.block
        symbols = function_symbols(self.function)
        if any(sized(type) is not None for type in block.arg_types):
            set_buffer_types(self.function, block.arg_types[: len(block.args) - len(symbols)])
        for argument in block.args:
            if sized(argument.type) is not None:
                type_ = dynamic_type(argument.type)
                extents = extents_of(argument.type)
                self.extents[Rewriter.replace_value_with_new_type(argument, type_)] = extents
        for op in tuple(self.function.walk()):
            if isinstance(op, loop.CallOp):
                self._lower_call(op)
            elif isinstance(op, DefineOp):
                self._lower_definition(op)
            elif any(sized(result.type) is not None for result in op.results):
                self._lower_buffer(op)
        outputs = list(self.function.function_type.outputs)
        self.function.function_type = FunctionType.from_lists(list(block.arg_types), outputs)

    def _constant(self, number: int) -> SSAValue:
        found = self.constants.get(number)
        if found is None:
            op = arith.ConstantOp(IntegerAttr(number, IndexType()))
            found = self.constants[number] = self._add(op)
        return found

    def _add(self, op: Operation) -> SSAValue:
        """Insert an op at the start of the function, after those that are already there."""
        block = self.function.body.block
        if self.last is not None:
            block.insert_op_after(op, self.last)
        else:
            assert block.first_op is not None
            block.insert_op_before(op, block.first_op)
        op.location = self.function.location
        self.last = op
        return op.results[0]

    def _apply(self, op_class: IndexOp, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._add(op_class(a, b))

    def _lower_call(self, op: loop.CallOp) -> None:
        extents = () if op.sizes is None else op.sizes.extents
        call = func.CallOp(op.callee, [*op.arguments, *map(self.sizes.of, extents)], [])
        call.attributes.update(op.attributes)
        call.location = op.location
        if extents:
            call.attributes[BYTES] = DimsAttr((sum(map(self._live_bytes, op.arguments)),))
        Rewriter.replace_op(op, call)

    def _lower_definition(self, op: DefineOp) -> None:
        """Load the integer, and clamp it to the range of the size."""
        assert isa(op.count.type, AnyMemRef)
        low, high = (self._constant(n) for n in op.symbol.range)
        zero = self._constant(0)
        loaded = memref.LoadOp.get(op.count, [zero] * len(op.count.type.get_shape()))
        number = arith.IndexCastOp(loaded.res, IndexType())
        least = arith.MaxSIOp(number.result, low)
        value = arith.MinSIOp(least.result, high)
        value.result.name_hint = op.symbol.name
        replace(op, [loaded, number, least, value])
        self.sizes.define(op.symbol.name, value.result)
        self.last = value

    def _live_bytes(self, buffer: SSAValue) -> Extent:
        assert isa(buffer.type, AnyMemRef)
        extents = self.extents.get(buffer, buffer.type.get_shape())
        return product(extents) * element_bytes(buffer.type.element_type)

    def _lower_buffer(self, op: Operation) -> None:
        """Replace an op whose result is a buffer with sizes."""
        type_ = op.results[0].type
        assert isa(type_, AnyMemRef)
        match op:
            case memref.AllocOp():
                memory = memref.AllocOp([], [], static_type(type_), op.alignment)
                memory.memref.name_hint = op.memref.name_hint
                new: list[Operation] = [memory, view_of(memory.memref, type_, self.sizes)]
            case loop.SliceOp(source=source, index=index):
                new = self._slice(source, index)
            case UnrealizedConversionCastOp(inputs=(source,)) if isa(source.type, AnyMemRef):
                new = self._cast(source, type_)
            case _:
                raise PassFailedError("cannot have a result with sizes", op=op)
        replace(op, new)
        self.extents[new[-1].results[0]] = extents_of(type_)

    def _slice(self, source: SSAValue, index: SSAValue) -> list[Operation]:
        """Return a slice of a buffer, whose strides must be known."""
        assert isa(source.type, AnyMemRef)
        extents = self.extents[source]
        if is_fixed(row_major(extents)):
            return [loop.SliceOp(source, index)]
        whole = sized_memref(extents, source.type.element_type)
        view = view_of(source, whole, self.sizes)
        return [view, loop.SliceOp(view.result, index)]

    def _cast(self, source: SSAValue, type: AnyMemRef) -> list[Operation]:
        """Return a dense buffer with another shape, or with other elements."""
        assert isa(source.type, AnyMemRef)
        new: list[Operation] = []
        extents, element = extents_of(type), source.type.element_type
        known = self.extents.get(source, source.type.get_shape())
        if known != extents and element_bytes(element) == element_bytes(type.element_type):
            new.append(view_of(source, sized_memref(extents, element), self.sizes))
            source = new[0].results[0]
        if not new or element != type.element_type:
            new.append(UnrealizedConversionCastOp.get([source], [_dynamic(type)]))
        return new


def _dynamic(type: AnyMemRef) -> AnyMemRef:
    found = dynamic_type(type)
    assert isa(found, AnyMemRef)
    return found
