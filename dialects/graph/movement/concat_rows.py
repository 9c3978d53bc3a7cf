"""Concatenation of the rows of matrices by copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.dialects.graph.core.types import AnyTensor, Array, shape_of, tensor
from tcopt.dialects.graph.elementwise.base import same_element_type
from tcopt.dialects.loop.writer import Buffer, KernelWriter


@irdl_op_definition
class ConcatRowsOp(OpaqueOp):
    """Row-wise concatenation of matrices.

        %y = graph.concat_rows %a, %b, %c : tensor<64x300xf32>

    Each element is copied once, by a loop for each operand. By contrast, `graph.concat` selects an
    operand for each element, but fuses.
    """

    name = "graph.concat_rows"

    inputs = var_operand_def(TensorType)
    result = result_def(TensorType)

    def __init__(self, inputs: Sequence[SSAValue | Operation]):
        super().__init__([SSAValue.get(value) for value in inputs])

    def infer(self) -> Sequence[AnyTensor]:
        """Return the common number of rows and the sum of the columns."""
        shapes = [shape_of(value) for value in self.inputs]
        if not shapes or any(len(shape) != 2 for shape in shapes):
            raise VerifyException("takes matrices")
        if len({rows for rows, _ in shapes}) > 1:
            raise VerifyException("operands differ in their rows")
        columns = sum(columns for _, columns in shapes)
        return (tensor((shapes[0][0], columns), same_element_type(*self.inputs)),)

    def compute_all(self, *arrays: Array) -> Sequence[Array]:
        """Evaluate the op with numpy."""
        return (np.concatenate(arrays, 1),)

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Write a loop over independent rows."""
        *inputs, result = buffers
        with k.loop(result.shape[0], parallel=True) as row:
            start = 0
            for x in inputs:
                for parts in k.parts(x.shape[1]):
                    with parts as part, part.places() as (place, _):
                        result[row, place.shifted(start)] = x[row, place]
                start += x.shape[1]
