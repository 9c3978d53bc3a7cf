"""Replacement of sizes by numbers, at the graph, te and loop levels.

A walk by hand: functions are specialised for the sizes of their calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self, cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.irdl import IRDLOperation, OptPropertyDef
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import SymbolTable
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.hints import isa

from tcopt.dialects import loop, te
from tcopt.dialects.graph.core.donation import rooms_of, set_rooms
from tcopt.dialects.graph.core.types import as_extents
from tcopt.dialects.origins import number_attribute
from tcopt.dialects.size import (
    DefineOp,
    DimsAttr,
    defined_symbols,
    dims_attr,
    function_symbols,
    set_function_symbols,
    substitute_type,
)
from tcopt.dialects.size.syntax import symbol_text
from tcopt.dialects.te.names import symbols_of, unique_name
from tcopt.passes.loop.analysis.indexing import IndexedOp, set_access
from tcopt.support.arithmetic.affine import simplify, substitute
from tcopt.support.arithmetic.intervals import UNBOUNDED
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.arithmetic.sizes import Extent, is_fixed, upper_bound
from tcopt.support.arithmetic.sizes import substitute as substitute_size
from tcopt.support.errors import InputError, PassFailedError
from tcopt.support.ir.literals import Integers, number_list
from tcopt.support.ir.rewriting import erase, insert, replace_by
from tcopt.support.syntax.access_syntax import unique_operands

Values = Mapping[str, int]


@dataclass(frozen=True)
class FixSizesPass(ModulePass):
    """Replace sizes by numbers: `fix-sizes{n=17}`.

    Types, extents and calls get the numbers, and functions lose the arguments for these sizes. The
    module is then the one of a model that was imported with these extents. Sizes without a number
    stay. Functions that host functions call are specialised for the sizes of each call; other
    functions of tensor expressions or loops are specialised for the numbers given for their own
    sizes.

        te.func @f(%x: tensor<64xf32, #size.dims<s0[1:64]>>, %s0: index) -> ...
            attributes {size.symbols = #size.dims<s0[1:64]>} {
          %y = te.compute "y" [%i = s0[1:64]] : tensor<64xf32, #size.dims<s0[1:64]>> {
            %0 = te.read %x[%s0 - 1 - %i] : tensor<64xf32, #size.dims<s0[1:64]>>
            ...
        func.func @main(%x: tensor<64xf32, #size.dims<2 * n[1:32]>>) -> ...
            attributes {size.symbols = #size.dims<n[1:32]>} {
          %y = te.call @f(%x) sizes <2 * n[1:32]> : ...
    ->
        te.func @f(%x: tensor<34xf32>) -> tensor<34xf32> {
          %y = te.compute "y" [%i = 34] : tensor<34xf32> {
            %0 = te.read %x[%i * -1 + 33] : tensor<34xf32>
            ...
        func.func @main(%x: tensor<34xf32>) -> tensor<34xf32> {
          %y = te.call @f(%x) : (tensor<34xf32>) -> tensor<34xf32>

    Options:
        values: names of sizes, each followed by its value; `fix-sizes{n=17 m=3}` is short for
            `fix-sizes{values=n,17,m,3}`.
    """

    name = "fix-sizes"

    values: tuple[str | int, ...] = ()

    @classmethod
    def from_spec(cls, spec: ArgSpec) -> Self:
        """Build the pass from `values`, or from an option for each size."""
        flat = list(spec.parameters.get("values", ()))
        for name, given in spec.parameters.items():
            flat += [] if name == "values" else [name, *given]
        return cls(cast("tuple[str | int, ...]", tuple(flat)))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fix_sizes(op, self._numbers())

    def _numbers(self) -> dict[str, int]:
        names, numbers = self.values[::2], self.values[1::2]
        if len(names) != len(numbers) or not all(
            isinstance(name, str) and type(number) is int
            for name, number in zip(names, numbers, strict=True)
        ):
            raise InputError("fix-sizes needs a number for each size", hint="fix-sizes{n=17 m=3}")
        return cast("dict[str, int]", dict(zip(names, numbers, strict=True)))


def fix_sizes(module: ModuleOp, values: Values) -> None:
    """Replace sizes of a module by numbers.

    Args:
        values: the number of each size, by name; others stay.

    Raises:
        InputError: no function has a size of this name, or the number is not in its range.
    """
    _check([*free_symbols(module), *defined_symbols(module)], values)
    calls = _calls(module)
    for function in _uncalled(module):
        _fix_function(function, values)
    _specialise(module, calls, values)
    rooms = rooms_of(module).items()
    set_rooms(module, {n: as_extents(substitute_size(e, values) for e in r) for n, r in rooms})


def free_symbols(module: ModuleOp) -> tuple[Symbol, ...]:
    """Return the sizes of a module to which no call gives values, without duplicates."""
    found = (symbol for function in _uncalled(module) for symbol in function_symbols(function))
    return tuple(dict.fromkeys(found))


def _calls(module: ModuleOp) -> list[Operation]:
    """Return the calls that give values to sizes."""
    return [
        op
        for function in module.ops
        if not isinstance(function, te.FuncOp | loop.FuncOp)
        for op in function.walk()
        if _is_call(op)
    ]


def _uncalled(module: ModuleOp) -> list[Operation]:
    """Return the functions to whose sizes no call gives values."""
    called = {call.properties["callee"] for call in _calls(module)}
    return [
        op
        for op in module.ops
        if not isinstance(op, te.FuncOp | loop.FuncOp) or SymbolRefAttr(op.sym_name) not in called
    ]


def _check(symbols: Sequence[Symbol], values: Values) -> None:
    for name, number in values.items():
        named = [symbol for symbol in symbols if symbol.name == name]
        if not named:
            known = ", ".join(dict.fromkeys(symbol.name for symbol in symbols))
            raise InputError(
                f"the module has no size '{name}'", hint=f"its sizes are {known}" if known else None
            )
        for symbol in named:
            if not symbol.low <= number <= symbol.high or number % symbol.multiple:
                raise InputError(f"size '{name}' is {symbol_text(symbol)}, it cannot be {number}")


def _is_call(op: Operation) -> bool:
    return "sizes" in op.properties and "callee" in op.properties


def _specialise(module: ModuleOp, calls: Sequence[Operation], values: Values) -> None:
    """Let calls with numbers among their sizes call functions for these numbers."""
    variants: dict[Attribute, dict[tuple[tuple[str, int], ...], list[Operation]]] = {}
    for call in calls:
        numbers = tuple(_fix_call(call, values).items())
        variants.setdefault(call.properties["callee"], {}).setdefault(numbers, []).append(call)
    names = symbols_of(module)
    for callee, users in variants.items():
        assert isinstance(callee, SymbolRefAttr)
        function = SymbolTable.lookup_symbol(module, callee)
        assert isinstance(function, te.FuncOp | loop.FuncOp)
        # The first variant replaces the function, if no call needs it as it is.
        reused = None if () in users else next(iter(users))
        for numbers in [n for n in users if n and n != reused]:
            new = function.clone()
            new.sym_name = StringAttr(unique_name(function.sym_name.data, names))
            module.body.block.insert_op_after(new, function)
            _fix_function(new, dict(numbers))
            for call in users[numbers]:
                call.properties["callee"] = SymbolRefAttr(new.sym_name)
        if reused is not None:
            _fix_function(function, dict(reused))


def _fix_call(call: Operation, values: Values) -> dict[str, int]:
    """Drop the sizes of a call that are numbers now; return them by the callee's names."""
    callee, sizes = call.properties["callee"], call.properties["sizes"]
    assert isinstance(callee, SymbolRefAttr) and isinstance(sizes, DimsAttr)
    function = SymbolTable.lookup_symbol(call, callee)
    if not isinstance(function, te.FuncOp | loop.FuncOp):
        raise PassFailedError("calls a function that has no sizes", op=call)
    given = [substitute_size(extent, values) for extent in sizes.extents]
    left = dims_attr(extent for extent in given if not isinstance(extent, int))
    if left is None:
        del call.properties["sizes"]
    else:
        call.properties["sizes"] = left
    names = [symbol.name for symbol in function_symbols(function)]
    return {n: value for n, value in zip(names, given, strict=True) if isinstance(value, int)}


def _fix_function(function: Operation, values: Values) -> None:
    """Replace some sizes of a function by numbers, and drop their arguments, if it has any."""
    _erase_definitions(function, values)
    fixed: list[BlockArgument] = []
    for name, argument in _size_arguments(function).items():
        if name in values:
            for user in {use.operation for use in argument.uses}:
                _fix_user(user, argument, values[name])
            fixed.append(argument)
    _fix_ops(function, values)
    if not fixed:
        return
    attributes = function.properties.get("arg_attrs")
    if isa(attributes, ArrayAttr):
        dropped = {argument.index for argument in fixed}
        kept = [each for place, each in enumerate(attributes) if place not in dropped]
        function.properties["arg_attrs"] = ArrayAttr(kept)
    block = function.regions[0].block
    for argument in fixed:
        block.erase_arg(argument)
    type_ = function.properties["function_type"]
    assert isinstance(type_, FunctionType)
    inputs = list(block.arg_types)
    function.properties["function_type"] = FunctionType.from_lists(inputs, type_.outputs.data)


def _erase_definitions(function: Operation, values: Values) -> None:
    for op in [op for op in function.walk() if isinstance(op, DefineOp)]:
        if op.symbol.name in values:
            if op.result.first_use is not None:
                number = insert(_index_constant(values[op.symbol.name]), op)
                op.result.replace_all_uses_with(number)
            erase(op)


def _size_arguments(function: Operation) -> dict[str, BlockArgument]:
    """Return the arguments that hold the sizes of a function; host functions on tensors have
    none."""
    blocks = [block for region in function.regions for block in region.blocks]
    arguments = blocks[0].args if blocks else ()
    indices = [argument for argument in arguments if isinstance(argument.type, IndexType)]
    names = [symbol.name for symbol in function_symbols(function)]
    return dict(zip(names, indices, strict=True)) if indices and names else {}


def _fix_ops(function: Operation, values: Values) -> None:
    """Replace sizes in the types and properties of a function and its ops."""
    symbols = [s for s in function_symbols(function) if s.name not in values]
    for op in function.walk():
        arguments = [a for region in op.regions for block in region.blocks for a in block.args]
        for value in (*op.results, *arguments):
            fixed = substitute_type(value.type, values)
            if fixed != value.type:
                Rewriter.replace_value_with_new_type(value, fixed)
        if not _is_call(op):
            _fix_properties(op, values)
        for key, attribute in op.attributes.items():
            op.attributes[key] = _fixed(attribute, values)
        if isinstance(op, loop.BlockOp) and op.init is not None:
            _keep_init(op)
    set_function_symbols(function, symbols)


def _keep_init(block: loop.BlockOp) -> None:
    """Let a reduction without terms still initialise its results."""
    kinds, extents = block.iter_kinds, block.live_domain
    fixed = [
        1 if kind is loop.IterKind.REDUCE and isinstance(extent, int) and extent == 0 else extent
        for kind, extent in zip(kinds, extents, strict=True)
    ]
    if fixed != list(extents):
        erase(*list(block.body.block.ops)[1:])
        block.set_variables(kinds, fixed)


def _fix_properties(op: Operation, values: Values) -> None:
    for key, attribute in list(op.properties.items()):
        if not isinstance(attribute, DimsAttr):
            op.properties[key] = _fixed(attribute, values)
            continue
        extents = tuple(substitute_size(extent, values) for extent in attribute.extents)
        if key == "sizes":
            _set_bounds(op, extents)
        if not is_fixed(extents):
            op.properties[key] = DimsAttr(extents)
        else:
            _set_numbers(op, key, cast("tuple[int, ...]", extents))


def _set_bounds(op: Operation, extents: Sequence[Extent]) -> None:
    """Set the properties that hold the upper bounds of an op's `sizes`."""
    rest = list(map(upper_bound, extents))
    for key in ("extents", "reduce_extents"):
        bounds = op.properties.get(key)
        if isa(bounds, Integers):
            op.properties[key] = number_list(*rest[: len(bounds)])
            rest = rest[len(bounds) :]
    if "trip" in op.properties:
        op.properties["trip"] = IntegerAttr(rest[0], i64)


def _set_numbers(op: Operation, key: str, numbers: Sequence[int]) -> None:
    """Set a property to numbers, in the form that the op's definition has for them."""
    assert isinstance(op, IRDLOperation)
    definition = op.get_irdl_definition().properties[key]
    if isinstance(definition, OptPropertyDef):
        del op.properties[key]
    elif definition.constr.verifies(number_list(*numbers)):
        op.properties[key] = number_list(*numbers)
    elif len(numbers) == 1 and definition.constr.verifies(IntegerAttr(numbers[0], i64)):
        op.properties[key] = IntegerAttr(numbers[0], i64)
    else:
        op.properties[key] = DimsAttr(tuple(numbers))


def _fixed(attribute: Attribute, values: Values) -> Attribute:
    """Return an attribute with sizes in its types replaced."""
    match attribute:
        case TensorType() | MemRefType():
            return substitute_type(attribute, values)
        case FunctionType():
            inputs = [substitute_type(type_, values) for type_ in attribute.inputs]
            outputs = [substitute_type(type_, values) for type_ in attribute.outputs]
            return FunctionType.from_lists(inputs, outputs)
        case ArrayAttr():
            return ArrayAttr([_fixed(each, values) for each in attribute])
        case DictionaryAttr():
            return DictionaryAttr({k: _fixed(v, values) for k, v in attribute.data.items()})
        case DimsAttr(extents=(extent,)):
            return number_attribute(substitute_size(extent, values))
        case _:
            return attribute


# Uses of size arguments.


def _fix_user(op: Operation, argument: SSAValue, number: int) -> None:
    """Replace a size argument among the operands of an op by a number."""
    match op:
        case loop.ForOp():
            op.extent = IntegerAttr(max(min(op.trip_count, number), 0), i64)
            op.limit = None
        case te.ReadOp():
            map, indices = _fixed_access(op.map.data, op.indices, argument, number)
            replace_by(op, [insert(te.ReadOp(op.source, map, indices, op.default), op)])
        case te.IndexOp() | loop.IndexOp():
            _fix_index(op, argument, number)
        case _ if isinstance(op, IndexedOp):
            set_access(op, *_fixed_access(op.map.data, op.indices, argument, number))
        case _:
            constant = insert(_index_constant(number), op)
            for position, operand in enumerate(op.operands):
                if operand is argument:
                    op.operands[position] = constant


def _fix_index(op: te.IndexOp | loop.IndexOp, argument: SSAValue, number: int) -> None:
    map, indices = _fixed_access(op.map.data, op.indices, argument, number)
    (expr,) = map.results
    if not isinstance(expr, AffineConstantExpr):
        replace_by(op, [insert(type(op)(map, indices), op)])
        return
    result, value = op.results[0], expr.value
    for user in {use.operation for use in result.uses}:
        _fix_user(user, result, value)
    erase(op)


def _fixed_access(
    map: AffineMap, indices: Sequence[SSAValue], argument: SSAValue, number: int
) -> tuple[AffineMap, list[SSAValue]]:
    """Return an index map with a number in place of one of its operands."""
    dims: list[AffineExpr] = [
        AffineConstantExpr(number) if value is argument else AffineDimExpr(place)
        for place, value in enumerate(indices)
    ]
    ranges = [UNBOUNDED] * len(dims)
    results = tuple(simplify(substitute(expr, dims), ranges) for expr in map.results)
    return unique_operands(AffineMap(len(dims), 0, results), indices)


def _index_constant(number: int) -> arith.ConstantOp:
    return arith.ConstantOp(IntegerAttr.from_index_int_value(number))
