"""Where a condition holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, i1, i32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.opaque import OpaqueOp
from tcopt.dialects.graph.types import AnyTensor, Array, element_type, shape_of, tensor
from tcopt.dialects.loop.writer import INDEX, Buffer, KernelWriter


@irdl_op_definition
class NonzeroOp(OpaqueOp):
    """The indices at which a vector is true, in order, and how many there are.

        %indices, %count = graph.nonzero %x : tensor<9xi64>, tensor<1xi64>

    Behind them the indices are 0.
    """

    name = "graph.nonzero"

    x = operand_def(TensorType)
    indices = result_def(TensorType)
    count = result_def(TensorType)

    def __init__(self, x: SSAValue | Operation):
        super().__init__([x])

    def infer(self) -> Sequence[AnyTensor]:
        """As many indices as conditions, and one number."""
        shape = shape_of(self.x)
        if len(shape) != 1 or element_type(self.x) != i1:
            raise VerifyException(f"takes a vector of conditions, not {self.x.type}")
        return tensor(shape, i64), tensor((1,), i64)

    def compute_all(self, x: Array) -> Sequence[Array]:
        """The values by numpy."""
        found = np.flatnonzero(x)
        indices = np.zeros(x.shape, np.int64)
        indices[: len(found)] = found
        return indices, np.array([len(found)])

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Vectors that hold at no place are passed by. In the others a place is written wherever
        the next one belongs, and kept if the condition holds: there is no branch to guess."""
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
