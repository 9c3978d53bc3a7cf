"""What identifies a function for those who run it: everything but names of values and locations.

Two functions of one fingerprint compute the same, so what one gave need not be computed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import AnyFloat, SymbolRefAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from tcopt.dialects.graph.constant import ConstantOp
from tcopt.support.dtypes import is_narrow

Array = NDArray[Any]


def fingerprint(func: Operation, functions: Mapping[str, Operation]) -> int:
    """A number for a function and those that it calls.

    Args:
        functions: of its module, by name.
    """
    return _Numbering(functions).function(func)


class _Numbering:
    def __init__(self, functions: Mapping[str, Operation]):
        self.functions = functions
        self.values: dict[SSAValue, int] = {}
        self.called: set[str] = set()

    def function(self, func: Operation) -> int:
        parts: list[Any] = [self.operation(func)]
        for name in sorted(self.called):
            if name in self.functions and self.functions[name] is not func:
                parts.append(fingerprint(self.functions[name], self.functions))
        return hash(tuple(parts))

    def operation(self, op: Operation) -> Any:
        operands = tuple(self.values.get(each, -1) for each in op.operands)
        types = tuple(hash(each.type) for each in op.results)
        for result in op.results:
            self.values[result] = len(self.values)
        properties = tuple((key, self.attribute(op.properties[key])) for key in op.properties)
        attributes = tuple((key, self.attribute(op.attributes[key])) for key in op.attributes)
        regions = tuple(
            tuple(self.block(block) for block in region.blocks) for region in op.regions
        )
        return hash((op.name, operands, types, properties, attributes, regions))

    def attribute(self, attribute: Attribute) -> int:
        if isinstance(attribute, SymbolRefAttr):
            self.called.add(attribute.string_value())
        return hash(attribute)

    def block(self, block: Block) -> int:
        for argument in block.args:
            self.values[argument] = len(self.values)
        types = tuple(hash(argument.type) for argument in block.args)
        return hash((types, tuple(self.operation(op) for op in block.ops)))


def digest(arrays: Sequence[Array]) -> bytes:
    """A number for the bytes, shapes and types of arrays."""
    state = blake2b(digest_size=16)
    for array in arrays:
        state.update(f"{array.dtype.name}{array.shape}".encode())
        state.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    return state.digest()


def precision_of(func: Operation) -> float:
    """The rounding error of the least precise float that a function computes with."""
    error = 2.0**-24
    for op in func.walk():
        for value in (*op.results, *(arg for region in op.regions for arg in _arguments(region))):
            element = get_element_type_or_self(value.type)
            if isinstance(element, AnyFloat) and not is_narrow(element):
                error = max(error, _PRECISIONS.get(element.bitwidth, 2.0**-24))
                if element.name == "bf16":
                    error = max(error, 2.0**-8)
    return error


_PRECISIONS = {64: 2.0**-53, 32: 2.0**-24, 16: 2.0**-11}


def _arguments(region: Any) -> Sequence[SSAValue]:
    return region.blocks[0].args if region.blocks else ()


_ROUNDERS = ("arith.fptosi", "arith.fptoui", "math.roundeven", "math.round", "math.floor",
             "math.ceil", "math.trunc")  # fmt: skip


def rounds(func: Operation) -> bool:
    """Whether a function rounds to whole numbers, where a small difference makes a step."""
    return any(
        op.name in _ROUNDERS or (op.name.startswith("graph.") and _graph_rounds(op))
        for op in func.walk()
    )


def _graph_rounds(op: Operation) -> bool:
    from tcopt.dialects.graph.interfaces import GraphOp

    if isinstance(op, ConstantOp) or not isinstance(op, GraphOp):
        return False
    sources = [get_element_type_or_self(each.type) for each in op.operands]
    results = [get_element_type_or_self(each.type) for each in op.results]
    from_float = any(isinstance(each, AnyFloat) for each in sources)
    return from_float and any(not isinstance(each, AnyFloat) for each in results)
