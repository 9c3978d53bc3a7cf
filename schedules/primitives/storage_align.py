"""storage_align: align the row stride of a buffer."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, i64

from tcopt.dialects.loop import BlockOp
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.dialects.loop.memory import STORAGE_ALIGN
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import State, alloc_of, value_label, written_buffer


def storage_align(state: State, block: BlockOp, dim: int, factor: int, offset: int) -> None:
    """Make the row stride of the buffer that `block` writes `k * factor + offset` elements.

        %t = loop.alloc global : memref<6x64xf32>
    ->
        %t = loop.alloc global {storage_align = array<i64: 0, 32, 16>} : memref<6x64xf32>

    Rows with a stride of a multiple of a large power of two share a few cache sets, and evict one
    another. `align-storage` gives the buffer of this example rows of 80 elements.

    Args:
        block: a block that writes one buffer, which the function allocates.
        dim: a dimension other than the last.
        factor, offset: numbers of elements, `0 <= offset < factor`.
    Raises:
        ScheduleError: the buffer is an argument of the function, or a number is out of range.
    """
    buffer = written_buffer(block, "storage_align")
    alloc = alloc_of(buffer)
    if alloc is None:
        reason = f"it writes {value_label(buffer)}, an argument whose strides are given"
        hint = "cache_write gives it a buffer of its own"
        raise illegal("storage_align", "block", reason, op=block, hint=hint)
    rank = len(buffer_shape(buffer))
    if not 0 <= dim < rank - 1:
        reason = f"{dim} is not a dimension before the last of {rank}"
        raise illegal("storage_align", "dim", reason, op=block)
    if not 0 <= offset < factor:
        reason = f"{offset} is not in [0, factor = {factor})"
        raise illegal("storage_align", "offset", reason, op=block)
    alloc.attributes[STORAGE_ALIGN] = DenseArrayBase.from_list(i64, [dim, factor, offset])
