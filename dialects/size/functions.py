"""Sizes of functions.

    te.func @f(%x: tensor<512x768xf32, #size.dims<s0[1:512], 768>>, %s0: index)
        attributes {size.symbols = #size.dims<s0[1:512]>}
    te.call @f(%x) sizes <length[1:512]> : ...

The attribute `size.symbols` of a function lists the symbols of its types. A function of tensor
expressions or loops has an index argument for each symbol, after its other arguments. A call states
the value of each as an extent over the symbols of the calling function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import FunctionType, IndexType, SymbolRefAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.size.dims import DimsAttr, dims_attr, substitute_type, symbols_in
from tcopt.dialects.size.syntax import symbol_text
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.arithmetic.sizes import (
    Extent,
    bounds_of,
    named_size,
    symbols_of,
    to_affine,
)

SYMBOLS = "size.symbols"
"""Attribute of functions with sizes: their symbols as a `DimsAttr`."""


def size_of(symbol: Symbol) -> Extent:
    """Return the extent that a symbol names."""
    return named_size(symbol.name, symbol.low, symbol.high, symbol.multiple)


def function_symbols(function: Operation) -> tuple[Symbol, ...]:
    """Return the symbols of a function, () if it has none.

    Raises:
        VerifyException: an entry of the attribute is an expression.
    """
    attribute = function.attributes.get(SYMBOLS)
    if attribute is None:
        return ()
    if not isinstance(attribute, DimsAttr):
        raise VerifyException(f"{SYMBOLS} has to be a #size.dims, not {attribute}")
    found: list[Symbol] = []
    for extent in attribute.extents:
        match symbols_of(extent):
            case (symbol,) if size_of(symbol) == extent:
                found.append(symbol)
            case _:
                raise VerifyException(f"{SYMBOLS} lists symbols, not expressions: {attribute}")
    return tuple(found)


def set_function_symbols(function: Operation, symbols: Sequence[Symbol]) -> None:
    """Set the symbols of a function."""
    attribute = dims_attr(map(size_of, symbols))
    if attribute is None:
        function.attributes.pop(SYMBOLS, None)
    else:
        function.attributes[SYMBOLS] = attribute


def size_arguments(function: Operation) -> dict[str, SSAValue]:
    """Return the index argument of each symbol of a function on tensor expressions or loops."""
    symbols = function_symbols(function)
    if not symbols:
        return {}
    arguments = function.regions[0].block.args[-len(symbols) :]
    return {s.name: value for s, value in zip(symbols, arguments, strict=True)}


def size_expression(
    extent: Extent, arguments: Mapping[str, SSAValue]
) -> tuple[AffineExpr, list[SSAValue]]:
    """Return an extent as an index expression over arguments of its function.

    Args:
        arguments: the argument with the value of each size; see `size_arguments`.
    """
    names = [symbol.name for symbol in symbols_of(extent)]
    expr = to_affine(extent, {name: position for position, name in enumerate(names)})
    assert expr is not None, f"{extent} is not affine in the sizes of a function"
    return expr, [arguments[name] for name in names]


def verify_symbols(function: Operation, types: Sequence[Attribute], *, arguments: bool) -> None:
    """Check that a function declares the symbols of its types.

    Args:
        arguments: whether the last of `types` must be an index for each symbol.

    Raises:
        VerifyException: it does not.
    """
    declared = function_symbols(function)
    missing = [symbol.name for symbol in symbols_in(types) if symbol not in declared]
    if missing:
        raise VerifyException(f"{SYMBOLS} does not list '{missing[0]}', which a type has")
    if arguments and declared:
        last = types[-len(declared) :]
        if len(last) != len(declared) or any(type != IndexType() for type in last):
            raise VerifyException(f"the last {len(declared)} arguments must be the sizes, as index")


def verify_call(
    op: Operation,
    callee: SymbolRefAttr,
    inputs: Sequence[Attribute],
    outputs: Sequence[Attribute] = (),
    sizes: DimsAttr | None = None,
) -> None:
    """Check that the types of a call match the function; detached ops are not checked.

    Args:
        sizes: the value of each symbol of the function.

    Raises:
        VerifyException: the function does not exist, or has another signature, or a size is outside
            of its range.
    """
    if not _is_in_module(op):
        return
    function = SymbolTable.lookup_symbol(op, callee)
    declared = None if function is None else getattr(function, "function_type", None)
    if function is None or not isinstance(declared, FunctionType):
        raise VerifyException(f"there is no function {callee}")
    values = _values(callee, function_symbols(function), () if sizes is None else sizes.extents)
    wanted = declared
    if values:
        arguments = declared.inputs.data[: -len(values)]
        wanted = FunctionType.from_lists(
            [substitute_type(type, values) for type in arguments],
            [substitute_type(type, values) for type in declared.outputs],
        )
    if (wanted.inputs.data, wanted.outputs.data) != (tuple(inputs), tuple(outputs)):
        used = FunctionType.from_lists(inputs, outputs)
        raise VerifyException(f"{callee} has type {wanted}, but is called with {used}")


def _values(
    callee: SymbolRefAttr, symbols: Sequence[Symbol], given: Sequence[Extent]
) -> Mapping[str, Extent]:
    if len(given) != len(symbols):
        raise VerifyException(f"{callee} has {len(symbols)} sizes, but {len(given)} are given")
    for symbol, extent in zip(symbols, given, strict=True):
        low, high = bounds_of(extent)
        if low < symbol.low or high > symbol.high or extent % symbol.multiple != 0:
            raise VerifyException(
                f"size '{symbol.name}' of {callee} has to be in {symbol_text(symbol)}, "
                f"but {extent} is in {low}..{high}"
            )
    return {symbol.name: extent for symbol, extent in zip(symbols, given, strict=True)}


def _is_in_module(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None:
        if parent.name == "builtin.module":
            return True
        parent = parent.parent_op()
    return False
