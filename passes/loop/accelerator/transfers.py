"""Loads and stores of tiles: rows of entries, which lie one after the other on the accelerator.

The last piece of an image may be narrower than the others, in a buffer of their width: it is loaded
with zeros behind its rows, which nothing reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tcopt.dialects.loop import IntrinOp
from tcopt.dialects.vdla import WIDTHS
from tcopt.passes.loop.accelerator.instruction_nests import Axis, Work
from tcopt.support.errors import UnsupportedError

_MOST_PAD = (1 << WIDTHS["pad"]) - 1
_MOST = (1 << WIDTHS["stride"]) - 1


@dataclass(frozen=True)
class Tile:
    """One transfer.

    Attributes:
        sram, dram: the first entry on the accelerator and in memory.
        stride: entries from one row to the next in memory.
        pad: rows above and below, columns left and right.
    """

    sram: int
    dram: int
    rows: int
    columns: int
    stride: int
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)


def tiles_of(work: Work, sram: int, dram: int) -> Iterator[Tile]:
    """The transfers that do some work, as few as there may be.

    Args:
        sram, dram: the numbers of the operands on the accelerator and in memory.
    Raises:
        UnsupportedError: one would be of zeros alone.
    """
    if not work.is_inside:
        name = work.buffers[dram].name_hint or "a buffer"
        raise UnsupportedError(
            f"a tile lies outside of %{name}: no instruction writes zeros alone there",
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
    """The entries of one operand for which there is nothing in the buffer of another: work of this
    operand alone."""
    axes = [Axis(a.extent, (a.steps[operand],), a.inside) for a in work.axes]
    first, buffers = work.first[operand], (work.buffers[operand],)
    for position, axis in enumerate(axes):
        low, high = axis.inside
        rest = [_cut(each, 0, each.extent) for each in axes[position + 1 :]]
        for start, end in ((0, low), (high, axis.extent)):
            if end > start:
                # Loops before this one are inside, as their other entries are there already.
                part = (*(_cut(a, *a.inside) for a in axes[:position]), _cut(axis, start, end))
                at = first + start * axis.steps[0]
                at += sum(each.inside[0] * each.steps[0] for each in axes[:position])
                yield Work(work.call, buffers, (at,), (), (*part, *rest))


def _cut(axis: Axis, start: int, end: int) -> Axis:
    """Some iterations of a loop."""
    return Axis(end - start, axis.steps, (0, end - start))


def _merged(axes: list[Axis], sram: int, dram: int) -> list[Axis]:
    """Loops that go through both memories as one, as one."""
    found: list[Axis] = []
    for axis in reversed(axes):
        inner = found[0] if found else None
        whole = None if inner is None else _whole(axis, inner, sram, dram)
        if whole is None:
            found.insert(0, axis)
        else:
            found[0] = whole
    return found


def _whole(outer: Axis, inner: Axis, sram: int, dram: int) -> Axis | None:
    if not inner.is_inside or any(
        outer.steps[side] != inner.steps[side] * inner.extent for side in (sram, dram)
    ):
        return None
    low, high = (n * inner.extent for n in outer.inside)
    extent = outer.extent * inner.extent
    if max(low, extent - high) > _MOST_PAD or high - low > _MOST:
        return None
    return Axis(extent, inner.steps, (low, high))


def _tile(work: Work, sram: int, dram: int) -> Tile | None:
    """The one transfer for loops, if there is one."""
    axes = list(work.axes)
    if len(axes) > 2:
        return None
    columns = Axis(1, (), (0, 1))
    if axes and axes[-1].steps[sram] == axes[-1].steps[dram] == 1:
        columns = axes.pop()
    rows = Axis(1, (), (0, 1))
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
    return Tile(work.first[sram], dram_first, *inside, stride if inside[0] > 1 else inside[1], pad)


def _may_fill(work: Work, sram: int, rows: Axis, columns: Axis) -> bool:
    """Whether zeros may be written behind each row, up to the next one: nothing else is written
    there, of a buffer that is loaded by these transfers alone."""
    width, is_load = rows.steps[sram], sram < len(work.call.outputs)
    calls = [use.operation for use in work.buffers[sram].uses]
    writers = [op for op in calls if isinstance(op, IntrinOp) and work.buffers[sram] in op.outputs]
    return (
        is_load
        and len(writers) == 1
        and width > columns.extent
        and work.first[sram] + rows.extent * width <= work.ends[sram]
    )
