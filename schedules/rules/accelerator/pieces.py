"""Division of a contraction into pieces that fit the memories of an accelerator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tcopt.schedules.api.handles import Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.accelerator.products import Products
from tcopt.schedules.rules.nests import variable_loops
from tcopt.support.arithmetic.columns import Column


@dataclass(frozen=True)
class Pieces:
    """How a contraction is divided into pieces; sizes are NumPy arrays for many choices.

    Attributes:
        sizes: sizes of pieces by variable; the whole extent for variables that are not listed.
        slots: number of slots of data, weights and sums.
        pixels_outside: whether the loop over pieces of pixels is outside of that over channels.
        whole_data, whole_weights: whether an operand is loaded once for all parts of a sum and all
            pieces that share it, instead of with each part.
        threads: pieces of the results that are virtual threads.
    """

    sizes: Mapping[int, Column]
    slots: tuple[Column, Column, Column] = (1, 1, 1)
    pixels_outside: Column = False
    whole_data: Column = False
    whole_weights: Column = False
    threads: Column = 1

    def order(self, found: Products) -> tuple[int, ...]:
        """Return the variables of the results in loop order, outermost first."""
        first, second = found.outputs, found.pixels
        if self.pixels_outside:
            first, second = second, first
        return (*found.groups, *first, *second)

    def __str__(self) -> str:
        told = [
            f"{'x'.join(map(str, self.sizes.values()))}, slots {'/'.join(map(str, self.slots))}"
        ]
        told += ["pixels outside"] if self.pixels_outside else []
        told += ["whole data"] if self.whole_data else []
        return ", ".join(told + (["whole weights"] if self.whole_weights else []))


@dataclass(frozen=True)
class PieceLoops:
    """The loops over the pieces of a contraction.

    Attributes:
        outer: loops over pieces, by variable.
        results: loops over pieces of the results, outermost first.
        parts: loops over parts of the sum.
        first: the outermost loop of the reduction.
    """

    found: Products
    outer: Mapping[int, Loop]
    results: Sequence[Loop]
    parts: Sequence[Loop]
    first: Loop

    def place(self, variables: Sequence[int], *, whole: bool) -> Loop:
        """Return the loop in which an operand that `variables` move is loaded.

        Args:
            whole: load it once for all pieces that share it, instead of with each part of a sum.
        """
        if not whole:
            return (self.parts or self.results)[-1]
        moving = [self.outer[v] for v in (*self.found.groups, *variables) if v in self.outer]
        return max(moving, key=self.results.index, default=self.results[0])


def cut(sch: Schedule, found: Products, pieces: Pieces) -> PieceLoops:
    """Split and reorder the loops of a contraction."""
    loops = variable_loops(sch, found.block)
    outer: dict[int, Loop] = {}
    for v in (*found.groups, *found.outputs, *found.pixels, *found.depth):
        if v in loops:
            size = min(pieces.sizes[v], sch.extent(loops[v]))
            outer[v], loops[v] = sch.split(loops[v], [None, size])
    results = [outer[v] for v in pieces.order(found) if v in outer]
    results = results or [sch.add_unit_loop(sch.get_loops(found.block)[0])]
    if pieces.threads > 1:
        v = thread_variable(found, pieces)
        assert v is not None, "threads are pieces of some variable"
        place = results.index(outer[v])
        results[place], outer[v] = sch.split(outer[v], [None, pieces.threads])
        results.append(outer[v])
    parts = [outer[v] for v in found.depth if v in outer]
    inner = (*found.outputs, *found.depth, *found.taps, *found.pixels, found.lane, found.inner)
    sch.reorder(*results, *parts, *(loops[v] for v in (*found.groups, *inner) if v in loops))
    if pieces.threads > 1:
        sch.virtual_thread(results[-1])
    first = next(loops[v] for v in inner if v in loops)
    return PieceLoops(found, outer, results, parts, (parts or [first])[0])


def thread_variable(found: Products, pieces: Pieces) -> int | None:
    """Return the variable whose pieces become virtual threads: output channels, if split."""
    extents = found.pattern.extents
    split = (v for v in (*found.outputs, *found.pixels) if pieces.sizes[v] < extents[v])
    return next(split, None)
