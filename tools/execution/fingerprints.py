"""Fingerprints of functions: everything that affects their results, without value names and
locations.

Functions with equal fingerprints compute the same, so results can be reused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

Array = NDArray[Any]


class Fingerprints:
    """Fingerprints of functions, each computed once."""

    def __init__(self) -> None:
        self._own: dict[Operation, tuple[int, list[str]]] = {}

    def alone(self, func: Operation) -> int:
        """Return the fingerprint of a function, without its callees."""
        return self._of(func)[0]

    def whole(self, func: Operation, functions: Mapping[str, Operation]) -> int:
        """Return the fingerprint of a function including its callees.

        Args:
            functions: of its module, by name.
        """
        own, called = self._of(func)
        known = [functions[name] for name in called if name in functions]
        return hash((own, *(self.whole(each, functions) for each in known if each is not func)))

    def _of(self, func: Operation) -> tuple[int, list[str]]:
        if func not in self._own:
            numbering = _Numbering()
            own = numbering.operation(func)
            self._own[func] = own, sorted(numbering.called)
        return self._own[func]


class _Numbering:
    def __init__(self) -> None:
        self.values: dict[SSAValue, int] = {}
        self.called: set[str] = set()

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


class Digests:
    """Digests of arrays; those of weights are cached, as no function writes to weights."""

    def __init__(self) -> None:
        self._weights: dict[int, Array] = {}
        self._known: dict[int, bytes] = {}

    def use_weights(self, weights: Iterable[Array]) -> None:
        """Keep the cached digests of these weights, and drop all others."""
        last, known = self._weights, self._known
        self._weights = {_address(each): each for each in weights if each.flags.c_contiguous}
        same = {place for place, each in self._weights.items() if last.get(place) is each}
        self._known = {place: known[place] for place in same & set(known)}

    def of(self, arrays: Sequence[Array]) -> bytes:
        """Return a digest of the bytes of arrays."""
        return blake2b(b"".join(map(self._of_one, arrays)), digest_size=16).digest()

    def _of_one(self, array: Array) -> bytes:
        weight = self._weights.get(place := _address(array))
        if weight is None or weight.nbytes != array.nbytes or not array.flags.c_contiguous:
            return _digest(array)
        if place not in self._known:
            self._known[place] = _digest(weight)
        return self._known[place]


def _address(array: Array) -> int:
    return array.__array_interface__["data"][0]


def _digest(array: Array) -> bytes:
    state = blake2b(f"{array.nbytes} ".encode(), digest_size=16)
    if array.size:
        state.update(np.ascontiguousarray(array).view(np.uint8).data)
    return state.digest()
