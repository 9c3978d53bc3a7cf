"""Lowering of loops around intrinsics to `accelerator.run`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from xdsl.ir import Operation

from tcopt.dialects import loop
from tcopt.dialects.accelerator import Instruction, Loops, Place, RunOp, StepOp
from tcopt.dialects.intrinsics import Intrinsic
from tcopt.dialects.loop.intrin import OperandTile
from tcopt.dialects.target import AcceleratorFacts
from tcopt.passes.loop.accelerator.instruction_nests import InstructionAxis, InstructionNest, Work
from tcopt.passes.loop.accelerator.writing_out import WritingOut, element_bits
from tcopt.support.errors import UnsupportedError
from tcopt.support.locations import nearest_location


class RunLowering(WritingOut):
    """Lowering to calls of intrinsics in the loops of instructions."""

    def __init__(self, function: loop.FuncOp, facts: AcceleratorFacts):
        super().__init__(function, facts)
        self.facts = facts
        self._steps: list[StepOp] = []

    def steps(self) -> Sequence[Operation]:
        return self._steps

    def is_instruction(self, declared: Intrinsic) -> bool:
        return isinstance(declared.instruction, Instruction)

    def granule(self, tile: OperandTile) -> int | None:
        """Return the elements per entry of a tile's memory; 1 for buffers of the host."""
        alloc = tile.buffer.owner
        if not isinstance(alloc, loop.AllocOp):
            return 1
        memory = self.facts.memories.get(alloc.scope.data.value)
        return 1 if memory is None else max(8 * memory.entry_bytes // element_bits(tile), 1)

    def check_entry(
        self, tile: OperandTile, nest: InstructionNest, bytes_: int, entry_bytes: int
    ) -> None:
        if bytes_ % entry_bytes:
            raise UnsupportedError(
                f"'{nest.declared.name}' works on {bytes_} bytes, which are not whole entries of "
                f"{entry_bytes}",
                op=nest.call,
            )

    def emit(self, work: Work, nest: InstructionNest) -> None:
        found = nest.declared.instruction
        assert isinstance(found, Instruction)
        location = nearest_location(nest.call)
        for each in pieces_of(work, found.loops):
            loops = Loops(
                tuple(axis.extent for axis in each.axes),
                tuple(axis.inside for axis in each.axes),
            )
            if not each.is_inside:
                loops = Loops(loops.extents, tuple((0, 0) for _ in each.axes))
                if not each.axes:
                    loops = Loops((1,), ((0, 0),))
            places = [self._place(each, number, loops) for number in range(len(each.buffers))]
            op = RunOp(nest.declared.name, loops, places)
            op.location = location
            self._steps.append(op)

    def _place(self, work: Work, number: int, loops: Loops) -> Place:
        buffer, first = work.buffers[number], work.first[number]
        steps = tuple(axis.steps[number] for axis in work.axes) or (0,) * len(loops.extents)
        alloc = buffer.owner
        if isinstance(alloc, loop.AllocOp):
            return Place(alloc.scope.data.value, None, first, steps)
        return Place("", self.buffers[buffer], first, steps)


def pieces_of(work: Work, most: Sequence[int]) -> Iterator[Work]:
    """Yield pieces of work that fit one instruction each.

    Args:
        most: maximum trip count of each loop of an instruction, the outermost first.
    """
    axes = merged(work.axes)
    limits = list(most)[max(len(most) - len(axes), 0) :]
    if len(axes) > len(limits):
        # Unrolling the smallest loop gives the fewest instructions.
        extents = [axis.extent for axis in axes]
        for part in replace(work, axes=tuple(axes)).split(extents.index(min(extents))):
            yield from pieces_of(part, most)
        return
    for position, (axis, limit) in enumerate(zip(axes, limits, strict=True)):
        if axis.extent > limit:
            for part in chunks(replace(work, axes=tuple(axes)), position, limit):
                yield from pieces_of(part, most)
            return
    yield replace(work, axes=tuple(axes))


def merged(axes: Sequence[InstructionAxis]) -> list[InstructionAxis]:
    """Merge adjacent loops that are contiguous in all operands, and drop single iterations."""
    found = [axis for axis in axes if axis.extent > 1 or not axis.is_inside]
    for place, (outer, inner) in enumerate(pairwise(found)):
        as_one = tuple(step * inner.extent for step in inner.steps)
        if inner.is_inside and outer.steps == as_one:
            low, high = (n * inner.extent for n in outer.inside)
            whole = InstructionAxis(outer.extent * inner.extent, inner.steps, (low, high))
            return merged([*found[:place], whole, *found[place + 2 :]])
    return found


def chunks(work: Work, position: int, most: int) -> Iterator[Work]:
    """Yield work with at most `most` iterations of a loop."""
    axis = work.axes[position]
    low, high = axis.inside
    for start in range(0, axis.extent, most):
        extent = min(most, axis.extent - start)
        inside = (min(max(low - start, 0), extent), min(max(high - start, 0), extent))
        part = InstructionAxis(extent, axis.steps, inside)
        yield replace(
            work,
            first=tuple(at + start * step for at, step in zip(work.first, axis.steps, strict=True)),
            axes=(*work.axes[:position], part, *work.axes[position + 1 :]),
        )
