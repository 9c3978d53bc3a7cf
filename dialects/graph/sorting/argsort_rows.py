"""Sorting the rows of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType, i1, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.dialects.graph.core.types import AnyTensor, Array, shape_of, tensor
from tcopt.dialects.graph.sorting.smallest_keys import smallest
from tcopt.dialects.loop.writer import Buffer, KernelWriter, Variable
from tcopt.dialects.loop.writer_scalar import INDEX, Scalar
from tcopt.support.arithmetic.sizes import upper_bound


@irdl_op_definition
class ArgsortRowsOp(OpaqueOp):
    """Indices that sort the rows of a matrix in increasing order.

        %indices = graph.argsort_rows %x : tensor<8xi64>

    Rows are compared lexicographically; equal rows keep their order. Nan is greater than all
    numbers.
    """

    name = "graph.argsort_rows"

    x = operand_def(TensorType)
    indices = result_def(TensorType)

    def __init__(self, x: SSAValue | Operation):
        super().__init__([x])

    def infer(self) -> Sequence[AnyTensor]:
        """Return one index per row."""
        shape = shape_of(self.x)
        if len(shape) != 2:
            raise VerifyException(f"takes a matrix, not {self.x.type}")
        return (tensor(shape[:1], i64),)

    def compute_all(self, x: Array) -> Sequence[Array]:
        """Evaluate with numpy; the last key of lexsort is the primary one."""
        if not x.shape[1]:
            return (np.arange(x.shape[0], dtype=np.int64),)
        order: Any = np.lexsort(x.T[::-1])
        return (order,)

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Write a merge sort of rows; a single column is sorted by integer keys."""
        x, places = buffers
        if x.shape[1] == 1 and x.dtype != i1:
            rows, dtype = x.shape[0], k.order_type(x.dtype)

            def emit(rank: Scalar, place: Scalar) -> None:
                places[rank] = place.cast(i64)

            smallest(k, rows, rows, dtype, lambda place: x[place, 0].order_key(), emit)
            return

        def precedes(a: Scalar, b: Scalar) -> Scalar:
            """Whether row `a` is less than row `b`."""
            sign = k.variable(INDEX, 0)
            with k.loop(x.shape[1]) as column, k.when(sign.get().equals(0)):
                first, second = x[a, column], x[b, column]
                with k.when(first.precedes(second)):
                    sign.set(1)
                with k.when(second.precedes(first)):
                    sign.set(2)
            return sign.get().equals(1)

        order, last = merge_sort(k, x.shape[0], precedes)
        with k.loop(x.shape[0]) as i:
            places[i] = order[last.get(), i].cast(i64)


def merge_sort(
    k: KernelWriter, extent: int, precedes: Callable[[Scalar, Scalar], Scalar]
) -> tuple[Buffer, Variable]:
    """Sort the indices 0 to `extent` stably.

    Args:
        precedes: whether the element at the first index belongs before that at the second.

    Returns:
        The buffer [2, extent], and the half of it that holds the sorted indices.
    """
    order = _places(k, extent)

    def belongs_first(source: Scalar, first: Scalar, second: Scalar) -> Scalar:
        return precedes(order[source, second], order[source, first])

    return order, _merge(k, extent, [order], belongs_first)


def _places(k: KernelWriter, extent: int) -> Buffer:
    order = k.workspace((2, extent), INDEX)
    with k.loop(extent) as i:
        order[0, i] = i
    return order


def _merge(
    k: KernelWriter,
    extent: int,
    moved: Sequence[Buffer],
    belongs_first: Callable[[Scalar, Scalar, Scalar], Scalar],
) -> Variable:
    """Merge runs of length 1, 2, 4, ... from one half of buffers [2, extent] to the other.

    Args:
        belongs_first: whether the second of two positions in a half of the buffers comes first.

    Returns:
        The half that holds the result.
    """
    passes = max(upper_bound(extent) - 1, 0).bit_length()
    width, half = k.variable(INDEX, 1), k.variable(INDEX, 0)
    left, right = k.variable(INDEX, 0), k.variable(INDEX, 0)
    middle, end = k.variable(INDEX, 0), k.variable(INDEX, 0)
    with k.loop(passes), k.when(width.get() < extent):
        source = half.get()
        left.set(0)
        end.set(0)
        with k.loop(extent) as i:
            with k.when(i.equals(end.get())):
                left.set(i)
                middle.set((i + width.get()).minimum(extent))
                right.set(middle.get())
                end.set((i + width.get() + width.get()).minimum(extent))
            first, second = (k.limited(at.get(), extent) for at in (left, right))
            from_left = k.variable(INDEX, 0)
            with k.when(left.get() < middle.get()):
                from_left.set(1)
                with (
                    k.when(right.get() < end.get()),
                    k.when(belongs_first(source, first, second)),
                ):
                    from_left.set(0)
            with k.when(from_left.get().equals(1)):
                for buffer in moved:
                    buffer[(1 - source), i] = buffer[source, first]
                left.set(left.get() + 1)
            with k.when(from_left.get().equals(0)):
                for buffer in moved:
                    buffer[(1 - source), i] = buffer[source, second]
                right.set(right.get() + 1)
        width.set(width.get() + width.get())
        half.set(1 - source)
    return half
