"""The programs of a model that is compiled when it runs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from tcopt.runtime.signature import Feed
from tcopt.runtime.specs import Shapes
from tcopt.runtime.staged import AnyProgram, Specialization
from tcopt.support.errors import SizeRangeError

PROGRAMS_KEPT = 16
"""Default number of specialisations kept for a model."""

_MOST_ACCEPTED = 1024
"""Number of combinations of shapes whose program is known without a check."""

Key = tuple[object, ...]


class Accepted(NamedTuple):
    """The program for a combination of shapes, and its key."""

    program: AnyProgram
    key: Key


class KeptPrograms:
    """Programs by the keys of their specializations; the most recently used ones are kept.

    Attributes:
        accepted: the programs for shapes that `accept` got.
    """

    def __init__(self) -> None:
        self._most = PROGRAMS_KEPT
        self._programs: OrderedDict[Key, AnyProgram] = OrderedDict()
        self.accepted: dict[Shapes, Accepted] = {}

    @property
    def most(self) -> int:
        """Maximum number of programs."""
        return self._most

    @most.setter
    def most(self, number: int) -> None:
        self._most = number
        self._evict()

    def accept(self, shapes: Shapes, found: Accepted) -> None:
        """Let later runs with the same shapes skip checks that depend only on shapes."""
        if len(self.accepted) >= _MOST_ACCEPTED:
            self.accepted.clear()
        self.accepted[shapes] = found

    def forget_accepted(self) -> None:
        """Check the shapes of later runs again."""
        self.accepted.clear()

    def program_for(
        self, specialization: Specialization, feeds: Mapping[str, Feed], *, again: bool = False
    ) -> Accepted:
        """Return the program for feeds; compile it if there is none yet.

        Args:
            again: compile it even if there is one.
        """
        program = None if again else self._programs.get(specialization.key(feeds))
        if program is None:
            program = specialization.compile(feeds)
        # The key is computed again, as compiling may find inputs whose values determine shapes.
        key = specialization.key(feeds)
        self._programs[key] = program
        self.touch(key)
        self._evict()
        return Accepted(program, key)

    def fitting(
        self,
        specialization: Specialization,
        feeds: Mapping[str, Feed],
        error: SizeRangeError,
        *,
        is_final: bool,
    ) -> AnyProgram:
        """Return the program for a run in which a size is outside of its range.

        Args:
            is_final: whether a program with another range of the size has failed too.
        """
        fitting = specialization.fitting(error, is_final=is_final)
        self.accepted.clear()
        return self.program_for(fitting, feeds, again=fitting is specialization).program

    def touch(self, key: Key) -> None:
        """Mark a program as the most recently used one."""
        if key in self._programs:
            self._programs.move_to_end(key)

    def _evict(self) -> None:
        while len(self._programs) > self._most:
            gone, _ = self._programs.popitem(last=False)
            for shapes in [s for s, each in self.accepted.items() if each.key == gone]:
                del self.accepted[shapes]
