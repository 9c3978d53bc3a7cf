"""Builder for the ops around few-bit contractions: encoding of data, and correction of sums."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i8, i16
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.dialects.graph.core.types import Array, element_type, numpy_dtype
from tcopt.dialects.graph.elementwise.arithmetic import AddOp, DivOp, MulOp, SubOp
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.passes.graph.folding.constants import Constants


class BitWriter:
    """Builds a list of ops."""

    def __init__(self, constants: Constants):
        self.constants = constants
        self.ops: list[Operation] = []

    def add(self, op: Operation) -> SSAValue:
        self.ops.append(op)
        return op.results[0]

    def extend(self, ops: list[Operation]) -> SSAValue:
        self.ops += ops
        return ops[-1].results[0]

    def constant(self, array: Array, hint: str) -> SSAValue:
        return self.add(self.constants.make(array, hint))

    def coded(
        self, x: SSAValue, offset: int, step: int, element: Attribute | None = i8
    ) -> SSAValue:
        """Convert data `offset + step * c` to the codes c.

        Args:
            element: type in whose low bits the code is read; None if all bits of the result matter.
        """
        is_exact = element is not None and step == 1
        if (offset or step > 1) and not is_exact and element_type(x) != i16:
            x = self.add(CastOp(x, i16))
        dtype = numpy_dtype(element_type(x))
        if offset:
            x = self.add(SubOp(x, self.constant(np.array(offset).astype(dtype), "offset")))
        if step > 1:
            x = self.add(DivOp(x, self.constant(np.array(step, dtype), "step")))
            if element is not None:
                x = self.add(CastOp(x, element))
        return x

    def scaled(self, total: SSAValue, factor: Array, rest: Array) -> None:
        """Append `factor * total + rest`."""
        if not factor.ndim and factor == -1:
            self.add(SubOp(self.constant(rest, "rest"), total))
            return
        if factor.ndim or factor != 1:
            total = self.add(MulOp(total, self.constant(factor, "factor")))
        if rest.any():
            self.add(AddOp(total, self.constant(rest, "rest")))
