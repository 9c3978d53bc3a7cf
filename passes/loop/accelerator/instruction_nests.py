"""Loop nests around one intrinsic call that become the loops of an accelerator instruction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.intrinsics import Intrinsic, intrinsic
from tcopt.dialects.loop.intrin import OperandTile
from tcopt.passes.loop.accelerator.forms import AccessForm, LinearForm, Values
from tcopt.passes.loop.analysis.instructions import path_to_call
from tcopt.support.arithmetic.intervals import is_within, meet, multipliers, weighted_sum
from tcopt.support.errors import UnsupportedError


@dataclass(frozen=True)
class InstructionAxis:
    """A loop of an instruction.

    Attributes:
        extent: trip count.
        steps: stride of each operand in entries, the output first.
        inside: range of the iterations (start and end) in which inputs are inside of their buffers.
    """

    extent: int
    steps: tuple[int, ...]
    inside: tuple[int, int]

    @property
    def is_inside(self) -> bool:
        """Whether all iterations are inside."""
        return self.inside == (0, self.extent)


@dataclass(frozen=True)
class Work:
    """The work of one or several instructions: entries of operands, in loops.

    Attributes:
        buffers: buffers of the operands, the output first.
        first: the entry of each buffer in the first iteration; for a placed buffer, the address in
            its memory.
        ends: end (exclusive) of each buffer in entries.
        axes: the loops, outermost first; loops of one iteration are omitted.
        is_inside: whether there is an iteration whose inputs are inside of their buffers.
    """

    call: loop.IntrinOp
    buffers: tuple[SSAValue, ...]
    first: tuple[int, ...]
    ends: tuple[int, ...]
    axes: tuple[InstructionAxis, ...]
    is_inside: bool = True

    def split(self, position: int) -> list[Work]:
        """Return a separate piece of work for each iteration of a loop."""
        axis = self.axes[position]
        rest = (*self.axes[:position], *self.axes[position + 1 :])
        low, high = axis.inside
        return [
            Work(
                self.call,
                self.buffers,
                tuple(at + n * step for at, step in zip(self.first, axis.steps, strict=True)),
                self.ends,
                rest,
                self.is_inside and low <= n < high,
            )
            for n in range(axis.extent)
        ]


class InstructionNest:
    """Perfectly nested loops and guards around one intrinsic call.

    Attributes:
        loops: the loops, outermost first.
    """

    def __init__(
        self,
        loops: Sequence[loop.ForOp],
        guards: Sequence[loop.GuardOp],
        call: loop.IntrinOp,
        granule: Granule,
    ):
        self.loops, self.call = tuple(loops), call
        self._conditions = [
            (AccessForm.of(expr, guard.indices), extent)
            for guard in guards
            for expr, extent in zip(guard.map.data.results, guard.condition_extents, strict=True)
        ]
        self._operands = [_Operand(tile, call, granule(tile)) for tile in call.tiles]

    @cached_property
    def declared(self) -> Intrinsic:
        """The intrinsic."""
        return intrinsic(self.call.intrin.data)

    @property
    def tiles(self) -> list[OperandTile]:
        """The tiles of the call, the output first."""
        return [operand.tile for operand in self._operands]

    def work(self, values: Values, places: Mapping[SSAValue, int]) -> list[Work] | None:
        """Return the work at these values of the outer loops; None if the nest cannot be the loops
        of an instruction, and must be unrolled.

        Args:
            places: address of each placed buffer.
        """
        ranges = {each.induction_variable: (0, each.trip_count) for each in self.loops}
        conditions = [(form.at(values), 0, extent) for form, extent in self._conditions]
        if (runs := _restrict(ranges, conditions)) is None:
            return None
        if not runs:
            return []
        inside = dict(ranges)
        limits = [
            (form.at(values), low, high)
            for operand in self._operands
            for form, low, high in operand.limits
        ]
        if (is_inside := _restrict(inside, limits)) is None:
            return None
        if not is_inside:
            inside = {value: (low, low) for value, (low, _) in ranges.items()}
        first: list[int] = []
        steps: list[Mapping[SSAValue, int]] = []
        for operand in self._operands:
            place = operand.place(values, places.get(operand.tile.buffer, 0))
            if place is None:
                return None
            moved = sum(step * ranges[v][0] for v, step in place.steps.items())
            first.append(place.base + moved)
            steps.append(place.steps)
        axes = tuple(
            InstructionAxis(
                high - low,
                tuple(each.get(value, 0) for each in steps),
                (inside[value][0] - low, inside[value][1] - low),
            )
            for value, (low, high) in ranges.items()
            if high - low > 1 or inside[value] != (low, high)
        )
        buffers = tuple(operand.tile.buffer for operand in self._operands)
        ends = tuple(places.get(each.tile.buffer, 0) + each.size for each in self._operands)
        return [Work(self.call, buffers, tuple(first), ends, axes, is_inside)]


Granule = Callable[[OperandTile], "int | None"]
"""Elements per entry of a tile's buffer; None for the number of elements of the tile."""


def nest_at(op: Operation, granule: Granule = lambda tile: None) -> InstructionNest | None:
    """Return the nest that starts with a loop, guard or call, or None."""
    path = path_to_call(op)
    if path is None:
        return None
    call = path[-1]
    assert isinstance(call, loop.IntrinOp)
    loops = [each for each in path if isinstance(each, loop.ForOp)]
    return InstructionNest(
        loops, [each for each in path if isinstance(each, loop.GuardOp)], call, granule
    )


class _Operand:
    """A tile of a call, addressed in entries.

    Attributes:
        elements: elements of an entry. size: entries of the buffer.
        limits: for a tile that may be partly outside of its buffer, for each such dimension: the
            first index, and the lower and upper bound (exclusive) of its values inside.
    """

    def __init__(self, tile: OperandTile, call: loop.IntrinOp, granule: int | None = None):
        self.tile, self.call = tile, call
        type_ = tile.buffer.type
        assert isa(type_, MemRefType)
        shape = type_.get_shape()
        strides = [prod(shape[dim + 1 :]) for dim in range(len(shape))]
        self.forms = [AccessForm.of(expr, call.indices) for expr in tile.first]
        self.strides = strides
        self.elements = granule or prod(tile.extents)
        self.size = prod(shape) // self.elements
        self._check_order()
        self.limits = [
            (form, -below, extent - above)
            for form, (below, above), extent in zip(self.forms, tile.reaches, shape, strict=True)
            if tile.is_padded
        ]

    def _check_order(self) -> None:
        """Check that the elements of a tile are contiguous, as in an entry."""
        inner = prod(self.tile.extents)
        for row, extent in zip(self.tile.steps, self.tile.extents, strict=True):
            inner //= extent
            step = sum(n * stride for n, stride in zip(row, self.strides, strict=True))
            if extent > 1 and step != inner:
                raise self._refused("its elements are not contiguous")

    def _refused(self, reason: str) -> UnsupportedError:
        name = self.tile.buffer.name_hint or "a buffer"
        return UnsupportedError(
            f"a tile of %{name} is not an entry of the accelerator's memory: {reason}", op=self.call
        )

    def place(self, values: Values, start: int) -> LinearForm | None:
        """Return the first entry of the tile if its buffer starts at `start`; None if it is not
        linear in the loop variables."""
        elements, total = self.elements, LinearForm(0)
        for form, stride in zip(self.forms, self.strides, strict=True):
            found = form.at(values)
            if found is None:
                return None
            total = total.plus(found.scaled(stride))
        if total.base % elements or any(step % elements for step in total.steps.values()):
            raise self._refused("it does not start at an entry")
        steps = {value: step // elements for value, step in total.steps.items()}
        return LinearForm(total.base // elements + start, steps)


def _restrict(
    ranges: dict[SSAValue, tuple[int, int]],
    conditions: Sequence[tuple[LinearForm | None, int, int]],
) -> bool | None:
    """Restrict loops to the iterations for which `low <= form < high` in all conditions.

    Returns:
        Whether any are left; None if a condition depends on several loops.
    """
    runs = True
    for form, low, high in conditions:
        if form is None:
            return None
        if not form.steps:
            runs = runs and low <= form.base < high
        elif len(form.steps) == 1:
            ((value, step),) = form.steps.items()
            ranges[value] = _narrowed(ranges[value], form.base, step, low, high)
        elif not _always(ranges, form, low, high):
            return None
    return runs and all(first < end for first, end in ranges.values())


def _narrowed(
    iterations: tuple[int, int], base: int, step: int, low: int, high: int
) -> tuple[int, int]:
    """Return the range of iterations for which `low <= base + step * n < high`."""
    least, most = multipliers(step, (low - base, high - 1 - base))
    first, end = meet(iterations, (least, most + 1))
    return first, max(first, end)


def _always(
    ranges: Mapping[SSAValue, tuple[int, int]], form: LinearForm, low: int, high: int
) -> bool:
    """Whether `low <= form < high` for all iterations."""
    terms = [(s, (ranges[v][0], ranges[v][1] - 1)) for v, s in form.steps.items()]
    return is_within(weighted_sum(form.base, terms), (low, high - 1))
