"""Sizes of a program: their values in a run follow from the shapes of the inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from tcopt.runtime.specs import Dimension, Shapes, TensorSpec
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.arithmetic.sizes import (
    Size,
    evaluate,
    solve,
    substitute,
    symbols_of,
    upper_bound,
)
from tcopt.support.errors import InputError, SizeRangeError, UndecidedSize

_MOST_KEPT = 1024
"""Number of combinations of shapes whose sizes are kept."""


class RunSizes(NamedTuple):
    """Sizes in a run.

    Attributes:
        values: the value of each of the program's sizes.
        outputs: shape of each output; the largest one if it has sizes that the run defines.
        rooms: shape of the room that each output is in; () if it is in none.
    """

    values: tuple[int, ...]
    outputs: tuple[tuple[int, ...], ...]
    rooms: tuple[tuple[int, ...], ...] = ()


class ProgramSizes:
    """Solver of a program's sizes.

    Args:
        symbols: the sizes, in the order of the program's arguments.
        inputs, outputs: specifications whose extents may be sizes.
    """

    def __init__(
        self,
        symbols: Sequence[Symbol],
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
    ):
        self.symbols = tuple(symbols)
        self._inputs = list(inputs)
        # Many tensors have the same extents, as the caches of all layers.
        self._sizes: dict[Size, int] = {}
        self._open = [
            (place, axis, self._number(size))
            for place, spec in enumerate(inputs)
            for axis, size in enumerate(spec.shape)
            if isinstance(size, Size)
        ]
        self._shapes = [self._numbered(spec.shape) for spec in outputs]
        self._rooms = [self._numbered(spec.room) for spec in outputs]
        self._distinct = list(self._sizes)
        self._known: dict[Shapes, RunSizes] = {}
        if not symbols:
            self._known[()] = self._at({})

    def of(self, shapes: Shapes) -> RunSizes:
        """Return the sizes for the shapes of all inputs, () for a program without sizes.

        Raises:
            InputError: a size would be outside of its range, or has several values.
        """
        found = self._known.get(shapes)
        if found is None:
            values = _solved(self.symbols, self._distinct_extents(shapes))
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            found = self._known[shapes] = self._at(values)
        return found

    def _number(self, size: Size) -> int:
        """Return the number of a size among those of all tensors."""
        return self._sizes.setdefault(size, len(self._sizes))

    def _numbered(self, shape: Sequence[Dimension]) -> list[tuple[int, int | None]]:
        """Return each extent, and the number of its size."""
        extents = (extent for extent in shape if isinstance(extent, int | Size))
        return [(0, self._number(n)) if isinstance(n, Size) else (n, None) for n in extents]

    def _distinct_extents(self, shapes: Shapes) -> list[_Extent]:
        """Return the extents of inputs that are sizes, without those that repeat another one."""
        seen: dict[int, int] = {}
        found: list[_Extent] = []
        for place, axis, number in self._open:
            value = shapes[place][axis]
            if seen.setdefault(number, value) != value or len(seen) > len(found):
                found.append(_Extent(self._inputs[place], axis, self._distinct[number], value))
        return found

    def _at(self, values: Mapping[str, int]) -> RunSizes:
        extents = [upper_bound(substitute(size, values)) for size in self._distinct]

        def shape(numbered: Sequence[tuple[int, int | None]]) -> tuple[int, ...]:
            return tuple([n if number is None else extents[number] for n, number in numbered])

        return RunSizes(
            tuple(values[symbol.name] for symbol in self.symbols),
            tuple(map(shape, self._shapes)),
            tuple(map(shape, self._rooms)),
        )


def shape_at(spec: TensorSpec, values: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape of a tensor whose extents are numbers and sizes, the largest one if some
    sizes have no value.

    Args:
        values: the value of each size.
    """
    extents = (n for n in spec.shape if isinstance(n, int | Size))
    return tuple(upper_bound(substitute(n, values)) for n in extents)


def symbols_in_shape(spec: TensorSpec) -> Iterator[Symbol]:
    """Yield the sizes that the extents of a tensor have."""
    return (s for n in spec.shape if isinstance(n, Size) for s in symbols_of(n))


def defined_sizes(
    outputs: Sequence[TensorSpec], counts: Sequence[TensorSpec], checked: Sequence[Symbol]
) -> list[Symbol]:
    """Return the sizes whose values are outputs of the same names, in their order.

    Args:
        outputs: outputs whose extents may be sizes.
        counts: the values of sizes.
        checked: sizes that may not be extents of outputs.
    """
    symbols = {symbol.name: symbol for spec in outputs for symbol in symbols_in_shape(spec)}
    symbols.update((symbol.name, symbol) for symbol in checked)
    return [symbols[spec.name] for spec in counts]


def refuse_sizes(
    checked: Sequence[Symbol], counts: Sequence[TensorSpec], values: Sequence[NDArray[Any]]
) -> None:
    """Raise an error if a size that a program computes is outside of its range.

    Args:
        checked: sizes with ranges.
        counts, values: the outputs that are values of sizes.
    Raises:
        SizeRangeError: for the first one.
    """
    found = {spec.name: value for spec, value in zip(counts, values, strict=True)}
    for size in checked:
        value = found[size.name].item()
        if not size.low <= value <= size.high:
            raise SizeRangeError(size.name, value, size.low, size.high)


class _Extent(NamedTuple):
    """An extent of an input that is a size, and its value in a run."""

    spec: TensorSpec
    axis: int
    size: Size
    value: int

    def __str__(self) -> str:
        return f'dimension {self.axis} of input "{self.spec.name}"'


def solved_sizes(
    symbols: Sequence[Symbol], specs: Sequence[TensorSpec], shapes: Shapes
) -> dict[str, int]:
    """Return the value of each size for the shapes of all inputs.

    Raises:
        InputError: a size would be outside of its range, has several values, or cannot be known.
    """
    return _solved(
        symbols,
        [
            _Extent(spec, axis, size, value)
            for spec, shape in zip(specs, shapes, strict=True)
            for axis, (size, value) in enumerate(zip(spec.shape, shape, strict=True))
            if isinstance(size, Size)
        ],
    )


def _solved(symbols: Sequence[Symbol], open_: list[_Extent]) -> dict[str, int]:
    """Return the value of each size for extents of inputs; see `solved_sizes`."""
    values: dict[str, int] = {}
    sources: dict[str, _Extent] = {}
    progress = True
    while open_ and progress:
        progress = False
        for each in tuple(open_):
            unknown = symbols_of(substitute(each.size, values))
            if not unknown:
                _check(each, values, sources)
            elif (found := _solve(each, values)) is not None:
                name, value = found
                values[name], sources[name] = value, each
            else:
                continue
            open_.remove(each)
            progress = True
    missing = [symbol.name for symbol in symbols if symbol.name not in values]
    if missing:
        raise InputError(
            f"the shapes of the inputs do not determine the size {missing[0]}",
            hint=f"compile the model for one value of {missing[0]}",
        )
    return values


def _solve(extent: _Extent, known: Mapping[str, int]) -> tuple[str, int] | None:
    """Return the value of the only unknown size of an extent; None if there are several."""
    try:
        return solve(extent.size, extent.value, known)
    except UndecidedSize:
        return None
    except InputError as error:
        ranges = ", ".join(map(_range_text, symbols_of(extent.size)))
        raise InputError(
            f"{extent} is {extent.value}, which the model is not compiled for: it is "
            f"{extent.size}, for {ranges}",
            hint="compile it for a larger range, or without one",
        ) from error


def _range_text(symbol: Symbol) -> str:
    steps = f" in steps of {symbol.multiple}" if symbol.multiple > 1 else ""
    return f"{symbol.name} from {symbol.low} to {symbol.high}{steps}"


def _check(extent: _Extent, values: Mapping[str, int], sources: Mapping[str, _Extent]) -> None:
    """Check that an extent has the value that follows from others."""
    wanted = evaluate(extent.size, values)
    if wanted == extent.value:
        return
    names = [symbol.name for symbol in symbols_of(extent.size)]
    reasons = "; ".join(f"{name} is {values[name]} by {sources[name]}" for name in names)
    raise InputError(
        f"{extent} is {extent.value}, but has to be {wanted}: it is {extent.size}, and {reasons}",
        hint="give inputs whose shapes agree",
    )
