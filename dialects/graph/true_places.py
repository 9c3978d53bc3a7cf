"""Where a condition holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, i1, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.opaque import OpaqueOp
from tcopt.dialects.graph.types import AnyTensor, Array, element_type, shape_of, tensor
from tcopt.dialects.loop.writer import INDEX, Buffer, KernelWriter


@irdl_op_definition
class TruePlacesOp(OpaqueOp):
    """The places at which a vector is true, in order, and how many there are.

        %places, %count = graph.true_places %x : tensor<9xi64>, tensor<1xi64>

    Behind them the places are 0.
    """

    name = "graph.true_places"

    x = operand_def(TensorType)
    places = result_def(TensorType)
    count = result_def(TensorType)

    def __init__(self, x: SSAValue | Operation):
        super().__init__([x])

    def infer(self) -> Sequence[AnyTensor]:
        """As many places as conditions, and one number."""
        shape = shape_of(self.x)
        if len(shape) != 1 or element_type(self.x) != i1:
            raise VerifyException(f"takes a vector of conditions, not {self.x.type}")
        return tensor(shape, i64), tensor((1,), i64)

    def compute_all(self, x: Array) -> Sequence[Array]:
        """The values by numpy."""
        found = np.flatnonzero(x)
        places = np.zeros(x.shape, np.int64)
        places[: len(found)] = found
        return places, np.array([len(found)])

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """One after the other."""
        x, places, count = buffers
        found = k.variable(INDEX, 0)
        with k.loop(x.shape[0]) as i:
            places[i] = 0
            with k.when(x[i]):
                places[found.get()] = i.cast(i64)
                found.set(found.get() + 1)
        count[0] = found.get().cast(i64)
