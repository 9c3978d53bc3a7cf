"""Memory of results that a program computes in the memory of an input."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.addresses import span_of
from tcopt.runtime.outputs import OutputPool
from tcopt.runtime.program_sizes import RunSizes
from tcopt.runtime.rooms import grown, new_room, part_of
from tcopt.runtime.specs import TensorSpec, memory_of
from tcopt.support.errors import InputError

Array = NDArray[Any]


class InPlaceResults:
    """Chooses the arrays of inputs that a run overwrites: donated ones, or copies of the others.

    Attributes:
        inputs: number of the input by number of the result that overwrites it.
    Raises:
        InputError: the input of a result does not exist, or has another shape or type.
    """

    def __init__(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]):
        self._names = [spec.name for spec in inputs]
        self.inputs: dict[int, int] = {}
        for number, spec in enumerate(outputs):
            if not spec.in_place_of:
                continue
            source = next((s for s in inputs if s.name == spec.in_place_of), None)
            if source is None or _memory(source) != _memory(spec):
                raise InputError(
                    f'output "{spec.name}" cannot be in the memory of "{spec.in_place_of}"',
                    hint="compile the model again",
                )
            self.inputs[number] = self._names.index(source.name)

    def prepare(
        self,
        feeds: Sequence[Array],
        donated: Collection[str],
        memory: Sequence[Array | None] | None,
        pools: Sequence[OutputPool],
        sizes: RunSizes,
    ) -> tuple[list[Array], list[Array | None]]:
        """Return the arrays for inputs, and those for results.

        Args:
            donated: names of the inputs that the run may overwrite.
            memory: given arrays for results, which overlap no feed; None for a new one.
            pools: memory of new arrays, for each result.
            sizes: shapes of results and of their rooms.
        Raises:
            InputError: a donated array overlaps another input.
        """
        given = list(feeds)
        results: list[Array | None] = [*memory] if memory is not None else [None for _ in pools]
        kept: dict[int, Array] = {}
        for result, source in self.inputs.items():
            array = given[source]
            flags = array.flags
            is_donated = self._names[source] in donated and flags.writeable and flags.aligned
            if room := sizes.rooms[result]:
                shape = sizes.outputs[result]
                whole = grown(array, room, shape) if is_donated else None
                if whole is None:
                    whole = new_room(pools[result], room, shape)
                    given[source] = part_of(whole, array.shape)
                    np.copyto(given[source], array)
                else:
                    kept[source] = whole
                results[result] = whole
                continue
            if is_donated:
                kept[source] = results[result] = array
                continue
            own = results[result]
            if own is None:
                own, _ = pools[result].take(array.shape)
            np.copyto(own, array)
            given[source] = results[result] = own
        self._check_overlaps(given, kept)
        return given, results

    def _check_overlaps(self, arrays: Sequence[Array], overwritten: Mapping[int, Array]) -> None:
        """Check that no memory that is overwritten is shared with another input.

        Args:
            arrays: the inputs.
            overwritten: the memory that is overwritten, by number of the input that it holds.
        """
        if not overwritten:
            return
        memory = (overwritten.get(number, array) for number, array in enumerate(arrays))
        spans = sorted(
            (*span_of(array), number) for number, array in enumerate(memory) if array.nbytes
        )
        end, last = 0, -1
        for start, stop, number in spans:
            if start < end and (number in overwritten or last in overwritten):
                first, second = self._names[last], self._names[number]
                raise InputError(
                    f'inputs "{first}" and "{second}" share memory, and one of them is donated',
                    hint="give an array of its own for each",
                )
            if stop > end:
                end, last = stop, number


def _memory(spec: TensorSpec) -> tuple[object, ...]:
    """Return the properties that tensors in the same memory share."""
    return memory_of(spec).shape, spec.dtype
