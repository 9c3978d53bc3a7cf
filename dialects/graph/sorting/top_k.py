"""The k largest or smallest elements of each row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import Extent, extent_attr, extent_in, flag
from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.dialects.graph.core.types import AnyTensor, Array, element_type, shape_of, tensor
from tcopt.dialects.graph.sorting.smallest_keys import smallest
from tcopt.dialects.loop.writer import Buffer, KernelWriter
from tcopt.dialects.loop.writer_scalar import Scalar


@irdl_op_definition
class TopKOp(OpaqueOp):
    """The k largest (or `smallest`) elements of each row, in order, and their indices.

        %values, %places = graph.top_k %x {k = 5} : tensor<8x5xf32>, tensor<8x5xi64>

    x has shape [rows, n]. Of equal elements, the one with the lower index comes first; nan is
    greater than every number, as in numpy's sort.
    """

    name = "graph.top_k"

    x = operand_def(TensorType)
    k = prop_def(Extent)
    smallest = opt_prop_def(UnitAttr)
    values = result_def(TensorType)
    places = result_def(TensorType)

    def __init__(self, x: SSAValue | Operation, k: int, *, smallest: bool = False):
        super().__init__([x], {"k": extent_attr(k), "smallest": flag(smallest)})

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [rows, k] for values and for indices."""
        shape, k = shape_of(self.x), extent_in(self.k)
        if len(shape) != 2 or not 0 <= k <= shape[1]:
            raise VerifyException(f"cannot take {k} elements of each row of {self.x.type}")
        extents = (shape[0], k)
        return tensor(extents, element_type(self.x)), tensor(extents, i64)

    def compute_all(self, x: Array) -> Sequence[Array]:
        """Evaluate the op with numpy."""
        if self.smallest is not None:
            order = np.argsort(x, axis=-1, kind="stable")
        else:
            # Reversing twice keeps the order of equal elements.
            backwards = np.argsort(x[:, ::-1], axis=-1, kind="stable")[:, ::-1]
            order = x.shape[1] - 1 - backwards
        places = order[:, : extent_in(self.k)].astype(np.int64)
        return np.take_along_axis(x, places, axis=-1), places

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Write a loop over independent rows."""
        x, values, places = buffers
        rows, count = values.shape
        if count == 0:
            return
        with k.loop(rows, parallel=True) as row:
            self._write_row(k, x, values, places, row)

    def _write_row(self, k: KernelWriter, x: Buffer, values: Buffer, places: Buffer, row: Scalar):
        def key(place: Scalar) -> Scalar:
            own = x[row, place].order_key()
            return own if self.smallest is not None else ~own

        def emit(rank: Scalar, place: Scalar) -> None:
            values[row, rank] = x[row, place]
            places[row, rank] = place.cast(i64)

        smallest(k, x.shape[1], values.shape[1], k.order_type(x.dtype), key, emit)
