"""Renumbering of a function's sizes, with one size for each product of sizes."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import FunctionType
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from tcopt.dialects.graph.core.types import element_type, shape_of
from tcopt.dialects.size import (
    function_symbols,
    set_function_symbols,
    size_of,
    sized_tensor,
)
from tcopt.dialects.te import FuncOp
from tcopt.dialects.te.function_sizes import FunctionSizes
from tcopt.dialects.te.ops import extent_properties
from tcopt.support.arithmetic.sizes import Size, to_affine


@dataclass(frozen=True)
class RenumberedSizes:
    """The sizes of a function before and after they were renumbered.

    Attributes:
        names: names of the former sizes.
        values: each size as an expression of the former ones.
    """

    names: tuple[str, ...]
    values: tuple[Size, ...]


def renumber_sizes(function: FuncOp) -> RenumberedSizes | None:
    """Give each product of sizes a symbol; return None if no extent is such a product.

    te.func @f(%x: tensor<32xf32, #size.dims<s0[1:4] * s1[1:8]>>, %s0: index, %s1: index)
    ->
    te.func @f(%x: tensor<32xf32, #size.dims<s0[1:32]>>, %s0: index)
    """
    former = function_symbols(function)
    tensors: list[SSAValue] = [*function.tensor_arguments, *(s.result for s in function.stages)]
    extents = [extent for value in tensors for extent in shape_of(value)]
    extents += [extent for stage in function.stages for extent in stage.reduction_extents]
    places = {symbol.name: place for place, symbol in enumerate(former)}
    if all(to_affine(extent, places) is not None for extent in extents):
        return None
    block = function.body.block
    arguments = block.args[len(function.tensor_arguments) :]
    sizes = FunctionSizes()
    sizes.add_arguments(block)
    for value in tensors:
        type_ = sized_tensor(sizes.shape(shape_of(value)), element_type(value))
        Rewriter.replace_value_with_new_type(value, type_)
    for stage in function.stages:
        spatial, reduced = stage.spatial_extents, stage.reduction_extents
        stage.properties.pop("sizes", None)
        stage.properties |= extent_properties(sizes.shape(spatial), sizes.shape(reduced))
    for symbol, argument in zip(former, arguments, strict=True):
        if argument.first_use is not None:
            _, (new,) = sizes.expression(size_of(symbol))
            argument.replace_all_uses_with(new)
        block.erase_arg(argument)
    set_function_symbols(function, sizes.symbols)
    function.properties["function_type"] = FunctionType.from_lists(
        list(block.arg_types), [value.type for value in function.outputs]
    )
    return RenumberedSizes(tuple(places), tuple(sizes.values))
