"""Transfers of tiles between memory and the accelerator, as rows of contiguous entries.

The last tile of an image may be narrower than its buffer, whose width is that of the others: it is
loaded with trailing zeros in each row, which are never read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tcopt.dialects.loop import IntrinOp
from tcopt.dialects.vdla import WIDTHS
from tcopt.passes.loop.accelerator.instruction_nests import InstructionAxis, Work
from tcopt.support.errors import UnsupportedError

_MOST_PAD = (1 << WIDTHS["pad"]) - 1
_MOST = (1 << WIDTHS["stride"]) - 1


@dataclass(frozen=True)
class TransferTile:
    """One transfer.

    Attributes:
        sram, dram: address of the first entry on the accelerator and in memory.
        stride: stride of rows in memory, in entries.
        pad: padding rows above and below, and columns left and right.
    """

    sram: int
    dram: int
    rows: int
    columns: int
    stride: int
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)


def tiles_of(work: Work, sram: int, dram: int) -> Iterator[TransferTile]:
    """Yield the fewest transfers that do some work.

    Args:
        sram, dram: indices of the operands on the accelerator and in memory.
    Raises:
        UnsupportedError: a transfer would consist of padding only.
    """
    if not work.is_inside:
        name = work.buffers[dram].name_hint or "a buffer"
        raise UnsupportedError(
            f"a tile is entirely outside of %{name}: no instruction writes only zeros",
            op=work.call,
            hint="larger tiles reach into the data",
        )
    axes = sorted(work.axes, key=lambda axis: -axis.steps[sram])
    merged = replace(work, axes=tuple(_merged(axes, sram, dram)))
    tile = _tile(merged, sram, dram)
    if tile is not None:
        yield tile
        return
    for part in merged.split(0):
        yield from tiles_of(part, sram, dram)


def outside_of(work: Work, operand: int) -> Iterator[Work]:
    """Yield the entries of one operand for which another operand is out of bounds, as work on this
    operand alone."""
    axes = [InstructionAxis(a.extent, (a.steps[operand],), a.inside) for a in work.axes]
    first, buffers = work.first[operand], (work.buffers[operand],)
    for position, axis in enumerate(axes):
        low, high = axis.inside
        rest = [_cut(each, 0, each.extent) for each in axes[position + 1 :]]
        for start, end in ((0, low), (high, axis.extent)):
            if end > start:
                # Outer loops are restricted to inside iterations; their other entries are already
                # covered.
                part = (*(_cut(a, *a.inside) for a in axes[:position]), _cut(axis, start, end))
                at = first + start * axis.steps[0]
                at += sum(each.inside[0] * each.steps[0] for each in axes[:position])
                yield Work(work.call, buffers, (at,), (), (*part, *rest))


def _cut(axis: InstructionAxis, start: int, end: int) -> InstructionAxis:
    """Return a sub-range of a loop's iterations."""
    return InstructionAxis(end - start, axis.steps, (0, end - start))


def _merged(axes: list[InstructionAxis], sram: int, dram: int) -> list[InstructionAxis]:
    """Merge loops that are contiguous in both memories."""
    found: list[InstructionAxis] = []
    for axis in reversed(axes):
        inner = found[0] if found else None
        whole = None if inner is None else _whole(axis, inner, sram, dram)
        if whole is None:
            found.insert(0, axis)
        else:
            found[0] = whole
    return found


def _whole(
    outer: InstructionAxis, inner: InstructionAxis, sram: int, dram: int
) -> InstructionAxis | None:
    if not inner.is_inside or any(
        outer.steps[side] != inner.steps[side] * inner.extent for side in (sram, dram)
    ):
        return None
    low, high = (n * inner.extent for n in outer.inside)
    extent = outer.extent * inner.extent
    if max(low, extent - high) > _MOST_PAD or high - low > _MOST:
        return None
    return InstructionAxis(extent, inner.steps, (low, high))


def _tile(work: Work, sram: int, dram: int) -> TransferTile | None:
    """Return the single transfer for a loop nest, or None if it needs several."""
    axes = list(work.axes)
    if len(axes) > 2:
        return None
    columns = InstructionAxis(1, (), (0, 1))
    if axes and axes[-1].steps[sram] == axes[-1].steps[dram] == 1:
        columns = axes.pop()
    rows = InstructionAxis(1, (), (0, 1))
    stride, width = columns.extent, columns.extent
    if axes:
        rows = axes.pop()
        stride, width = rows.steps[dram], rows.steps[sram]
        if width != columns.extent and not _may_fill(work, sram, rows, columns):
            return None
    (top, row_end), (left, column_end) = rows.inside, columns.inside
    pad = (top, rows.extent - row_end, left, width - column_end)
    if axes or not 0 <= stride <= _MOST or max(pad) > _MOST_PAD:
        return None
    inside = (row_end - top, column_end - left)
    if max(inside) > _MOST:
        return None
    dram_first = work.first[dram] + left + top * stride
    return TransferTile(
        work.first[sram], dram_first, *inside, stride if inside[0] > 1 else inside[1], pad
    )


def _may_fill(work: Work, sram: int, rows: InstructionAxis, columns: InstructionAxis) -> bool:
    """Whether trailing zeros may be written after each row, up to the next: nothing else is stored
    there, in a buffer that only these transfers load."""
    width, is_load = rows.steps[sram], sram < len(work.call.outputs)
    calls = [use.operation for use in work.buffers[sram].uses]
    writers = [op for op in calls if isinstance(op, IntrinOp) and work.buffers[sram] in op.outputs]
    return (
        is_load
        and len(writers) == 1
        and width > columns.extent
        and work.first[sram] + rows.extent * width <= work.ends[sram]
    )
