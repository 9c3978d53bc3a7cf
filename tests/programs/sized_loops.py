"""Loop functions over sizes: their fixed form with one extent replaced by a size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FunctionType, IndexType, MemRefType, ModuleOp

from tcopt.dialects.loop import AllocOp, BlockOp, FuncOp
from tcopt.dialects.size import extents_of, set_function_symbols, sized_memref
from tcopt.interpreters.plain_loop import translate
from tcopt.support.arithmetic.sizes import Extent, named_size, symbols_of
from tcopt.support.ir.verify import verify
from tcopt.tools.execution.loop_executor import PlainCode

Array = NDArray[np.float32]


def with_sizes(function: FuncOp, bounds: Sequence[int], least: int = 1) -> FuncOp:
    """Turn each extent that equals a bound into a size of up to this bound.

    Args:
        bounds: numbers that no other extents of the function equal.
        least: the lower bound of the sizes.
    """
    sizes = {n: named_size(f"s{i}", least, n) for i, n in enumerate(bounds)}

    def live(extents: Sequence[Extent]) -> list[Extent]:
        return [sizes.get(cast(int, extent), extent) for extent in extents]

    def sized(type: object) -> MemRefType:
        memref = cast(MemRefType, type)
        return sized_memref(live(extents_of(memref)), memref.element_type, memref.memory_space)

    body = function.body.block
    types = [sized(argument.type) for argument in body.args]
    for argument, type_ in zip(body.args, types, strict=True):
        argument._type = type_  # pyright: ignore[reportPrivateUsage]
    for op in function.walk():
        if isinstance(op, AllocOp):
            op.result._type = sized(op.result.type)  # pyright: ignore[reportPrivateUsage]
        elif isinstance(op, BlockOp):
            op.set_variables(op.iter_kinds, live(op.domain))
    for size in sizes.values():
        symbol = symbols_of(size)[0]
        body.insert_arg(IndexType(), len(body.args)).name_hint = symbol.name
    function.properties["function_type"] = FunctionType.from_lists(body.arg_types, [])
    set_function_symbols(function, [symbols_of(size)[0] for size in sizes.values()])
    verify(ModuleOp([function.clone()]))
    return function


class SizedCode:
    """Machine code of a function, for all of its sizes."""

    def __init__(self, function: FuncOp):
        self._code = PlainCode(translate(function))

    def __call__(self, inputs: Sequence[Array], shape: Sequence[int], *sizes: int) -> Array:
        """Return the result, the last buffer, of a run at given sizes."""
        result = np.full(shape, np.nan, np.float32)
        self._code([*inputs, result, *(np.array([n]) for n in sizes)])
        return result
