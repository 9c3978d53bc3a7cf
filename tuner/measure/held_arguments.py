"""Buffers of a workload's arguments, on the host or on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from numpy.typing import NDArray

from tcopt.tuner.arguments import INPUT, OUTPUT, WEIGHT, Argument
from tcopt.tuner.measure.device_memory import copies_of_weights
from tcopt.tuner.measure.values import make_values, poison
from tcopt.tuner.measure.workload import Workload

Array = NDArray[Any]


class HeldBuffer(Protocol):
    """An argument's memory, and a host array with its contents."""

    @property
    def argument(self) -> Argument: ...

    @property
    def array(self) -> Array: ...

    def commit(self) -> None:
        """Copy what was written to the host array to the argument's memory."""
        ...


_Buffer = TypeVar("_Buffer", bound=HeldBuffer)


class HeldArguments(Generic[_Buffer]):
    """Arguments of a workload, and copies of its weights for calls to rotate through.

    Args:
        make: creates the buffer of an argument.
    """

    def __init__(self, workload: Workload, make: Callable[[Argument], _Buffer]):
        self._kind = -1
        self.arguments: list[_Buffer] = [make(argument) for argument in workload.arguments]
        weights = [a for a in workload.arguments if a.role == WEIGHT]
        count = copies_of_weights(workload, sum(a.size for a in weights))
        self._copies: list[list[_Buffer]] = [[make(a) for a in weights] for _ in range(count - 1)]

    def rows(self) -> list[list[_Buffer]]:
        """Return the list of all arguments for each copy of the weights."""
        rows = [self.arguments]
        places = [n for n, b in enumerate(self.arguments) if b.argument.role == WEIGHT]
        for copy in self._copies:
            row = list(self.arguments)
            for place, buffer in zip(places, copy, strict=True):
                row[place] = buffer
            rows.append(row)
        return rows

    def fill(self, kind: int) -> None:
        """Write a set of inputs, and poison the outputs."""
        self.poison()
        if kind == self._kind:
            return
        self._kind = kind
        for number, buffer in enumerate(self.arguments):
            if buffer.argument.role in (INPUT, WEIGHT):
                a = buffer.argument
                buffer.array[...] = make_values(a.shape, a.dtype, number, kind)
                buffer.commit()
        weights = [b for b in self.arguments if b.argument.role == WEIGHT]
        for copy in self._copies:
            for buffer, weight in zip(copy, weights, strict=True):
                buffer.array[...] = weight.array
                buffer.commit()

    def poison(self) -> None:
        """Fill the outputs with values that no kernel computes."""
        for buffer in self.arguments:
            if buffer.argument.role == OUTPUT:
                poison(buffer.array)
                buffer.commit()

    def clear(self) -> list[_Buffer]:
        """Drop all buffers, and return them."""
        buffers = [*self.arguments, *(b for copy in self._copies for b in copy)]
        self.arguments.clear()
        self._copies.clear()
        return buffers
