"""Compiles of one model for the shapes of its runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.compiler.open_sizes import OpenSizes
from tcopt.compiler.options import CompileOptions
from tcopt.compiler.outcome import OpenModel
from tcopt.compiler.value_rooms import ValueRooms
from tcopt.runtime.model import AnyProgram
from tcopt.runtime.signature import Feed, flat_arrays, shape_of
from tcopt.runtime.staged import Specialization
from tcopt.support.arithmetic.size_ranges import SizeRange
from tcopt.support.data.strings import is_text
from tcopt.support.errors import CancelledError, SizeRangeError, TcoptError
from tcopt.support.remarks import notice


class Specializer(Specialization):
    """Compiles for the shapes, and if needed the values, of the inputs of a run.

    Args:
        compile_for: compiles with the given options.
        options: with the shapes and values that are fixed for all runs.
        sizes: ranges of open dimensions; None if the options determine all shapes or their ranges.
        by_value: further inputs whose values determine sizes; programs then have no ranges.
        rooms: ranges of sizes that are values.
    """

    def __init__(
        self,
        compile_for: Callable[[CompileOptions], AnyProgram | OpenModel],
        options: CompileOptions,
        sizes: OpenSizes | None = None,
        by_value: Iterable[str] = (),
        rooms: ValueRooms | None = None,
    ):
        self._compile_for = compile_for
        self._options = options
        self._sizes = sizes
        self._rooms = rooms or ValueRooms()
        self._by_number: Specializer | None = None
        self._by_value: set[str] = {*options.values, *by_value}

    @property
    def needs_values(self) -> bool:
        return bool(self._by_value)

    def key(self, feeds: Mapping[str, Feed]) -> tuple[object, ...]:
        by_value = [
            (name, tuple(array.flat) if is_text(array.dtype) else array.tobytes())
            for name, array in _values(feeds, self._by_value).items()
        ]
        if self._options.rooms is None:
            by_value.append(("", b""))
        if self._sizes is None:
            return tuple(sorted(by_value))
        shapes = {name: shape_of(value) for name, value in sorted(feeds.items())}
        if not self._by_value:
            shapes = self._sizes.shapes_of(shapes)
        return (*shapes.items(), *sorted(by_value))

    def compile(self, feeds: Mapping[str, Feed]) -> AnyProgram:
        program = self._compile(feeds)
        if self._options.timed and self._sizes is not None and self._sizes.remark is not None:
            first = program.parts[0]
            first.remarks = (*first.remarks, self._sizes.remark)
        return program

    def _compile(self, feeds: Mapping[str, Feed]) -> AnyProgram:
        if self._sizes is None:
            return self._compile_fixed(feeds, {})
        shapes = {name: shape_of(value) for name, value in feeds.items()}
        sizes = self._sizes
        seen = None if self._by_value else sizes.widened(shapes)
        if seen is None:
            return self._compile_fixed(feeds, shapes)
        problem = None
        for ranges in (seen, sizes.without_ones(seen)) if seen.ranged is not None else ():
            if ranges is None or ranges.ranged is None:
                continue
            found = self._compile_ranged(feeds, ranges.ranged)
            if not isinstance(found, TcoptError):
                sizes.accept(ranges)
                return found
            problem = problem or found
        program = self._compile_fixed(feeds, shapes)
        # Errors that every program of this combination has are not those of ranges.
        if problem is not None:
            sizes.give_up(seen, problem)
        elif not self._by_value:
            sizes.accept(seen)
        return program

    def _compile_ranged(
        self, feeds: Mapping[str, Feed], shapes: Mapping[str, object]
    ) -> AnyProgram | TcoptError:
        """Return the program for shapes with sizes, or the error if there is none."""
        try:
            found = self._outcome(feeds, replace(self._options, shapes=self._all(shapes)))
        except CancelledError:
            raise
        except TcoptError as error:
            return error
        except Exception as error:
            # A fault of the compiler with sizes: the model still has programs for single sizes.
            return TcoptError(f"internal error, {type(error).__name__}: {error}")
        return found.missing if isinstance(found, OpenModel) else found

    def _compile_fixed(self, feeds: Mapping[str, Feed], shapes: Mapping[str, object]) -> AnyProgram:
        fixed = self._options
        while True:
            values = {**fixed.values, **_values(feeds, self._by_value)}
            known = replace(fixed, shapes=self._all(shapes), values=values)
            found = self._outcome(feeds, known)
            if not isinstance(found, OpenModel):
                return found
            fresh = set(_values(feeds, found.deciding)) - self._by_value
            if not fresh:
                raise found.missing
            self._by_value |= fresh

    def _outcome(
        self, feeds: Mapping[str, Feed], options: CompileOptions
    ) -> AnyProgram | OpenModel:
        """Compile with ranges of the sizes that are values."""
        if options.rooms is None or not self._rooms.serve:
            return self._compile_for(replace(options, rooms=None))
        samples = {name: feed for name, feed in feeds.items() if isinstance(feed, np.ndarray)}
        try:
            while True:
                ranged = replace(options, rooms=self._rooms.ranges, samples=samples)
                found = self._compile_for(ranged)
                if not isinstance(found, OpenModel) or not found.rooms:
                    return found
                self._rooms.add(found.rooms)
        except TcoptError:
            raise
        except Exception as error:
            # A fault of the compiler with sizes: the model still has programs for their values.
            if not self._rooms.ranges:
                raise
            self._rooms.serve = False
            message = f"compiled for each value: internal error, {type(error).__name__}: {error}"
            notice("compile", next(iter(self._rooms.ranges)), message)
            return self._compile_for(replace(options, rooms=None))

    def fitting(self, error: SizeRangeError, *, is_final: bool) -> Specializer:
        given = self._options.dims.get(error.name)
        if given is not None and not (isinstance(given, SizeRange) and given.falls_back):
            raise error
        if not is_final and self._rooms.widen(error):
            return self
        if self._by_number is None:
            sizes = None if self._sizes is None else self._sizes.unseen()
            numbers = replace(self._options, rooms=None)
            self._by_number = Specializer(self._compile_for, numbers, sizes)
        return self._by_number

    def _all(self, shapes: Mapping[str, object]) -> dict[str, object]:
        """Return shapes with those that are the same for all runs."""
        return {**shapes, **self._options.shapes}


def _values(feeds: Mapping[str, Feed], names: Collection[str]) -> dict[str, NDArray[Any]]:
    """Return the arrays of some tensors; those on a device are copied to the host."""
    tensors = (pair for name, value in feeds.items() for pair in flat_arrays(name, value))
    return {name: np.asarray(tensor) for name, tensor in tensors if name in names}
