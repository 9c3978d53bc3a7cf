"""The k greatest or least elements of each row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.attributes import Int, flag, integer
from tcopt.dialects.graph.opaque import OpaqueOp
from tcopt.dialects.graph.sort_rows import sort_by_keys
from tcopt.dialects.graph.types import AnyTensor, Array, element_type, shape_of, tensor
from tcopt.dialects.loop.writer import INDEX, Buffer, KernelWriter, Scalar

_INSERTION_LIMIT = 32
"""Up to so many elements are kept sorted while a row is read; more are found by sorting it."""


@irdl_op_definition
class TopKOp(OpaqueOp):
    """The k greatest (or `smallest`) elements of each row, in order, and their places.

        %values, %places = graph.top_k %x {k = 5} : tensor<8x5xf32>, tensor<8x5xi64>

    x has shape [rows, n]. Of equal elements the one at the lower place comes first; nan is greater
    than every number, as numpy sorts it.
    """

    name = "graph.top_k"

    x = operand_def(TensorType)
    k = prop_def(Int)
    smallest = opt_prop_def(UnitAttr)
    values = result_def(TensorType)
    places = result_def(TensorType)

    def __init__(self, x: SSAValue | Operation, k: int, *, smallest: bool = False):
        super().__init__([x], {"k": integer(k), "smallest": flag(smallest)})

    def infer(self) -> Sequence[AnyTensor]:
        """[rows, k], twice."""
        shape, k = shape_of(self.x), self.k.value.data
        if len(shape) != 2 or not 0 <= k <= shape[1]:
            raise VerifyException(f"there are no {k} elements in each row of {self.x.type}")
        extents = (shape[0], k)
        return tensor(extents, element_type(self.x)), tensor(extents, i64)

    def compute_all(self, x: Array) -> Sequence[Array]:
        """The values by numpy."""
        if self.smallest is not None:
            order = np.argsort(x, axis=-1, kind="stable")
        else:
            # Reversed twice: equal elements keep their order.
            backwards = np.argsort(x[:, ::-1], axis=-1, kind="stable")[:, ::-1]
            order = x.shape[1] - 1 - backwards
        places = order[:, : self.k.value.data].astype(np.int64)
        return np.take_along_axis(x, places, axis=-1), places

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Rows are independent."""
        x, values, places = buffers
        rows, count = values.shape
        if count == 0:
            return
        with k.loop(rows, parallel=True) as row:
            if count <= _INSERTION_LIMIT:
                self._insert(k, x, values, places, row)
            else:
                self._sort(k, x, values, places, row)

    def _precedes(self, a: Scalar, b: Scalar) -> Scalar:
        return a.precedes(b) if self.smallest is not None else b.precedes(a)

    def _insert(self, k: KernelWriter, x: Buffer, values: Buffer, places: Buffer, row: Scalar):
        """Each element that belongs there goes to its place among the first k so far."""
        count = values.shape[1]
        with k.loop(x.shape[1]) as i:
            new = x[row, i]
            enters = k.variable(INDEX, count)
            with k.when(i < count):
                enters.set(i)
            with k.loop(count) as step:
                place = (count - 1) - step
                with k.when(place < i), k.when(self._precedes(new, values[row, place])):
                    with k.when(place < count - 1):
                        values[row, place + 1] = values[row, place]
                        places[row, place + 1] = places[row, place]
                    enters.set(place)
            chosen = enters.get()
            with k.when(chosen < count):
                values[row, chosen] = new
                places[row, chosen] = i.cast(i64)

    def _sort(self, k: KernelWriter, x: Buffer, values: Buffer, places: Buffer, row: Scalar):
        """Sort all places, and take the first."""

        def key(place: Scalar) -> Scalar:
            own = x[row, place].order_key()
            return own if self.smallest is not None else ~own

        dtype = k.order_type(x.dtype)
        order, last = sort_by_keys(k, x.shape[1], dtype, key)
        with k.loop(values.shape[1]) as i:
            place = order[last, i]
            values[row, i] = x[row, place]
            places[row, i] = place.cast(i64)
