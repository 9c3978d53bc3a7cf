"""Interpreter of kernel-level functions for a CPU: one thread, parallel loops in a given order.

It shares no code with the code generator, so it can tell whether a kernel's IR or its machine code
is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import func, memref, scf
from xdsl.traits import SymbolTable

from tcopt.interpreters.kernel import LaunchState
from tcopt.interpreters.kernel_memory import Threads
from tcopt.support.errors import UnsupportedError

Array = NDArray[Any]
Order = Callable[[int], Sequence[int]]
"""Returns the order in which a number of parallel iterations run."""


def in_sequence(count: int) -> Sequence[int]:
    """Run parallel iterations in sequence."""
    return range(count)


def strided(count: int) -> Sequence[int]:
    """Run parallel iterations backwards in steps of three."""
    return [index for first in range(3) for index in range(count - 3 + first, -1, -3)]


def run_serial(
    function: func.FuncOp, arrays: Sequence[Array], order: Order = in_sequence
) -> list[Array]:
    """Run one function, which writes to its arrays in place.

    Args:
        arrays: one for each argument, of its shape and dtype.
        order: of the iterations of parallel loops.
    Returns:
        The values that the function returns.
    Raises:
        InputError: an access is out of bounds, or the arrays do not match.
        UnsupportedError: the function has an op that the interpreter does not know.
    """
    serial = _Serial(function, order)
    serial.run(arrays)
    return serial.returned


class _Serial(LaunchState):
    def __init__(self, function: func.FuncOp, order: Order):
        super().__init__(function, Threads((1, 1, 1), (1, 1, 1)), check_races=False)
        self.order = order
        self.returned: list[Array] = []
        self.rules |= {
            memref.AllocOp: self._alloc,
            memref.DeallocOp: lambda _: None,
            scf.ParallelOp: self._parallel,
            scf.ReduceOp: lambda _: None,
            func.CallOp: self._call,
            func.ReturnOp: self._return,
        }

    def _return(self, op: func.ReturnOp) -> None:
        self.returned = [np.asarray(self.values[each]).reshape(-1)[0] for each in op.arguments]

    def _call(self, op: func.CallOp) -> None:
        module, name = self.function.parent_op(), op.callee.string_value()
        callee = SymbolTable.lookup_symbol(module, name) if module is not None else None
        if not isinstance(callee, func.FuncOp) or callee.is_declaration:
            raise UnsupportedError(f"calls @{name}, which has no body here", op=op)
        # Operands that are the same buffer must become the same array.
        arrays = {id(b): b.values.reshape(b.shape) for b in self.buffers.values()}
        operands = [
            arrays[id(self.buffers[each])]
            if each in self.buffers
            else np.asarray(self.values[each]).reshape(-1)[0]
            for each in op.arguments
        ]
        inner = _Serial(callee, self.order)
        inner.run(operands)
        self.values.update(zip(op.res, inner.returned, strict=True))

    def _parallel(self, op: scf.ParallelOp) -> None:
        bounds = zip(op.lowerBound, op.upperBound, op.step, strict=True)
        ranges = [range(*(int(self.values[value]) for value in each)) for each in bounds]
        points = list(product(*ranges))
        for index in self.order(len(points)):
            self.values.update(zip(op.body.block.args, points[index], strict=True))
            self.block(op.body.block)
