"""Random numbers as a function of where they are: no state, so all of them at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.attributes import Int, integer
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.types import AnyTensor, Array, element_of, element_type, shape_of, tensor
from tcopt.dialects.te import api as te

_U32 = element_of(np.dtype(np.uint32))
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_GROUPS = 5
_MOST = 2**32


@irdl_op_definition
class RandomBitsOp(GraphOp):
    """32 random bits for each element: one word of Threefry-2x32-20 (Salmon et al., 2011).

        %bits = graph.random_bits %key {stream = 7} : tensor<64x3xui32>

    The cipher's key is %key, of 64 bits, its counter the element's flat index and `stream`. Each
    element is computed by itself. `second` takes the other word of the two that there are.
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
        """The declared type; VerifyException unless the key has 64 bits and places 32."""
        if shape_of(self.key) != (1,) or element_type(self.key) != i64:
            raise VerifyException(f"a key is a tensor<1xi64>, not {self.key.type}")
        if self.type.element_type != _U32:
            raise VerifyException(f"bits are ui32, not {self.type.element_type}")
        if math.prod(self.shape) > _MOST or not 0 <= self.stream.value.data < _MOST:
            raise VerifyException("places and streams have 32 bits")
        return (self.type,)

    def work(self) -> int:
        """Twenty rounds of an addition, a rotation and an exclusive or."""
        return 100 * math.prod(self.shape)

    def compute(self, key: Array) -> Array:
        """The value by numpy."""
        halves = np.ascontiguousarray(key).view(np.uint32)
        places = np.arange(math.prod(self.shape), dtype=np.uint32)
        stream = np.full_like(places, self.stream.value.data)
        words = threefry(halves[0], halves[1], places, stream)
        return words[self.second.value.data].reshape(self.shape)

    def tensor_expression(self, key: te.Tensor) -> te.Tensor:
        """One stage."""
        stream = te.const(self.stream.value.data, _U32)

        def body(*axes: te.Axis) -> te.Expr:
            whole = key[0]
            low = te.cast(whole, _U32)
            high = te.cast(te.shift_right(whole, te.const(32, i64)), _U32)
            place: Any = 0
            for axis, extent in zip(axes, self.shape, strict=True):
                place = place * extent + axis
            counter = te.cast(place, _U32) if axes else te.const(0, _U32)
            words = _words(low, high, counter, stream, _constant, _rotated_expression)
            return words[self.second.value.data]

        return te.compute(self.shape, body, name="random_bits")


def threefry(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """The two words of a counter (x0, x1) under a key (k0, k1), by numpy, all of 32 bits."""
    with np.errstate(over="ignore"):
        return _words(k0, k1, x0, x1, np.uint32, _rotated)


def _words(
    k0: Any, k1: Any, x0: Any, x1: Any, number: Callable[[int], Any], rotate: Callable[..., Any]
) -> tuple[Any, Any]:
    """The cipher; `number` makes constants, `rotate` turns words to the left."""
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
