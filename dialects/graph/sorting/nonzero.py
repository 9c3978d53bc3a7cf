"""Indices of the true elements of a vector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, i1, i32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.dialects.graph.core.types import AnyTensor, Array, element_type, shape_of, tensor
from tcopt.dialects.loop.writer import Buffer, KernelWriter
from tcopt.dialects.loop.writer_scalar import INDEX


@irdl_op_definition
class NonzeroOp(OpaqueOp):
    """Indices of the true elements of a vector, in order, and their number.

        %indices, %count = graph.nonzero %x : tensor<9xi64>, tensor<1xi64>

    The remaining indices are 0.
    """

    name = "graph.nonzero"

    x = operand_def(TensorType)
    indices = result_def(TensorType)
    count = result_def(TensorType)

    def __init__(self, x: SSAValue | Operation):
        super().__init__([x])

    def infer(self) -> Sequence[AnyTensor]:
        """Return a vector of indices with the length of x, and a count."""
        shape = shape_of(self.x)
        if len(shape) != 1 or element_type(self.x) != i1:
            raise VerifyException(f"takes a vector of conditions, not {self.x.type}")
        return tensor(shape, i64), tensor((1,), i64)

    def compute_all(self, x: Array) -> Sequence[Array]:
        """Evaluate the op with numpy."""
        found = np.flatnonzero(x)
        indices = np.zeros(x.shape, np.int64)
        indices[: len(found)] = found
        return indices, np.array([len(found)])

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Write loops that skip vectors without true elements. In other vectors, every index is
        stored, but the position is incremented only if the element is true, which avoids
        branches."""
        x, indices, count = buffers
        extent, found = x.shape[0], k.variable(INDEX, 0)
        for parts in k.parts(extent):
            with parts as part, part.places() as (place, _):
                indices[place] = 0
        for parts in k.parts(extent):
            with parts as part:
                holding = k.variable(i32, 0)
                with part.places() as (place, _):
                    holding.set(holding.get().maximum(k.select(x[place], 1, 0, i32)))
                with k.when(holding.get() > 0), part.each() as place:
                    at = found.get()
                    indices[at] = place.cast(i64)
                    found.set(at + k.select(x[place], 1, 0, INDEX))
        with k.when(found.get() < extent):
            indices[found.get()] = 0
        count[0] = found.get().cast(i64)
