"""Stateless random numbers: a function of the element index, computed in parallel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import Int, integer
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_of,
    element_type,
    shape_of,
    tensor,
)
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.sizes import is_fixed, upper_bound

_U32 = element_of(np.dtype(np.uint32))
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_GROUPS = 5
_MOST = 2**32


@irdl_op_definition
class RandomBitsOp(GraphOp):
    """32 random bits for each element: one word of Threefry-2x32-20 (Salmon et al., 2011).

        %bits = graph.random_bits %key {stream = 7} : tensor<64x3xui32>

    The cipher's key is %key, of 64 bits; its counter consists of the element's flat index and
    `stream`. Each element is computed independently. `second` selects the second of the two words.
    """

    name = "graph.random_bits"

    key = operand_def(TensorType)
    stream = prop_def(Int, default_value=integer(0))
    second = prop_def(Int, default_value=integer(0))
    result = result_def(TensorType)

    def __init__(
        self,
        key: SSAValue | Operation,
        shape: Sequence[int],
        *,
        stream: int = 0,
        second: bool = False,
    ):
        properties = {"stream": integer(stream), "second": integer(int(second))}
        super().__init__([key], properties, tensor(shape, _U32))
        self.infer()

    def infer(self) -> Sequence[AnyTensor]:
        """Return the declared type; VerifyException unless the key has 64 bits, and indices fit in
        32."""
        if shape_of(self.key) != (1,) or element_type(self.key) != i64:
            raise VerifyException(f"the key must be a tensor<1xi64>, got {self.key.type}")
        if self.type.element_type != _U32:
            raise VerifyException(f"bits must be ui32, got {self.type.element_type}")
        if upper_bound(math.prod(self.shape)) > _MOST or not 0 <= self.stream.value.data < _MOST:
            raise VerifyException("indices and streams must fit in 32 bits")
        return (self.type,)

    def work(self) -> int:
        """Return the operation count: twenty rounds of addition, rotation and exclusive or."""
        return 100 * math.prod(self.shape)

    def compute(self, key: Array) -> Array:
        """Evaluate the op with numpy."""
        halves = np.ascontiguousarray(key).view(np.uint32)
        places = np.arange(math.prod(self.shape), dtype=np.uint32)
        stream = np.full_like(places, self.stream.value.data)
        words = threefry(halves[0], halves[1], places, stream)
        return words[self.second.value.data].reshape(self.shape)

    def tensor_expression(self, key: te.Tensor) -> te.Tensor:
        """Return one stage that evaluates the cipher for each element."""
        stream = te.const(self.stream.value.data, _U32)

        def place_of(axes: Sequence[te.Axis]) -> Any:
            """Return the flat index; a value instead of an index if it is not affine."""
            place: Any = 0
            is_affine = is_fixed(self.shape[1:])
            for axis, extent in zip(axes, self.shape, strict=True):
                if is_affine or isinstance(place, int):
                    place = place * extent + axis
                else:
                    place = te.cast(place, _U32) * te.const(extent, _U32) + te.cast(axis, _U32)
            return place

        def body(*axes: te.Axis) -> te.Expr:
            whole = key[0]
            low = te.cast(whole, _U32)
            high = te.cast(te.shift_right(whole, te.const(32, i64)), _U32)
            counter = te.cast(place_of(axes), _U32) if axes else te.const(0, _U32)
            words = _words(low, high, counter, stream, _constant, _rotated_expression)
            return words[self.second.value.data]

        return te.compute(self.shape, body, name="random_bits")


def threefry(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Return the two words of a counter (x0, x1) under a key (k0, k1) with numpy, all of 32
    bits."""
    with np.errstate(over="ignore"):
        return _words(k0, k1, x0, x1, np.uint32, _rotated)


def _words(
    k0: Any, k1: Any, x0: Any, x1: Any, number: Callable[[int], Any], rotate: Callable[..., Any]
) -> tuple[Any, Any]:
    """Evaluate the cipher; `number` makes constants, `rotate` rotates words to the left."""
    keys = (k0, k1, k0 ^ k1 ^ number(_PARITY))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for group in range(_GROUPS):
        for bits in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = rotate(x1, bits) ^ x0
        place = group + 1
        x0 = x0 + keys[place % 3]
        x1 = x1 + keys[(place + 1) % 3] + number(place)
    return x0, x1


def _constant(value: int) -> te.Expr:
    return te.const(value, _U32)


def _rotated(x: Array, bits: int) -> Array:
    return x << np.uint32(bits) | x >> np.uint32(32 - bits)


def _rotated_expression(x: te.Expr, bits: int) -> te.Expr:
    left = te.shift_left(x, te.const(bits, _U32))
    return left | te.shift_right(x, te.const(32 - bits, _U32))
