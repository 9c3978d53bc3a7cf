"""What identifies a function for those who run it: everything but names of values and locations.

Two functions of one fingerprint compute the same, so what one gave need not be computed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

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
    """A number for the bytes of arrays."""
    state = blake2b(digest_size=16)
    for array in arrays:
        state.update(f"{array.nbytes} ".encode())
        state.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    return state.digest()
