"""Functions of bytes as lookup tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import Ints, ints
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    numpy_dtype,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.elementwise.base import ElementwiseOp
from tcopt.dialects.graph.elementwise.quantize import is_quantized
from tcopt.dialects.table import BYTES
from tcopt.dialects.te import api as te


@irdl_op_definition
class LookupOp(ElementwiseOp):
    """Entry of a constant table for each byte, interpreted as unsigned.

    Entries are bit patterns of the result's elements, written as integers from -128 to 127.
    """

    name = "graph.lookup"

    x = operand_def(TensorType)
    table = prop_def(Ints)

    def __init__(self, x: SSAValue | Operation, table: Sequence[int], element: Attribute):
        value = SSAValue.get(x)
        result = tensor(shape_of(value), element)
        GraphOp.__init__(self, [value], {"table": ints(table)}, result)

    @property
    def entries(self) -> tuple[int, ...]:
        """Entries of the table."""
        return self.table.get_values()

    def infer(self) -> Sequence[AnyTensor]:
        """Return the operand's shape with the result's element type."""
        elements = element_type(self.x), self.type.element_type
        for element in elements:
            if not is_quantized(element) or numpy_dtype(element).itemsize != 1:
                raise VerifyException(f"looks up integers of 8 bits, not {element}")
        if len(self.entries) != BYTES or not all(-128 <= n <= 127 for n in self.entries):
            raise VerifyException(f"a table has {BYTES} entries from -128 to 127")
        return (tensor(shape_of(self.x), elements[1]),)

    @property
    def fills_registers(self) -> bool:
        """True: one instruction looks up a full register of bytes."""
        return True

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return self.values()[x.view(np.uint8)]

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.lookup(x, self.entries, self.type.element_type)

    def values(self) -> Array:
        return np.array(self.entries, np.int8).view(numpy_dtype(self.type.element_type))
