"""Pipelines as data: phases of passes with their options.

`str` prints a pass or a phase as text, and a phase can be created from its text. Nothing here needs
xDSL, because a pipeline is created before it is known whether anything must be compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tcopt.support.errors import InputError, ParsingError
from tcopt.support.pipelines.pass_specs import Passes, PassSpec, Value, passes_text
from tcopt.support.suggestions import suggest

PHASES = ("import", "graph", "te", "loop", "schedule", "kernel", "code")
"""Names of all phases of a compile; `import` and `code` have no passes."""

KERNEL_PHASES = ("loop", "schedule", "kernel")
"""Phases that each kernel goes through, which can be run on a single kernel."""


@dataclass(frozen=True, init=False)
class Phase:
    """A named part of a pipeline; `--compile-to` stops after one.

    Attributes:
        name: name of the phase, as in `--compile-to`.
        passes: passes to run, in order.
    """

    name: str
    passes: Passes

    def __init__(self, name: str, passes: str | Iterable[PassSpec] = ()):
        """
        Args:
            passes: pass specifications, or their text.
        Raises:
            ParsingError: the text is malformed.
        """
        if isinstance(passes, str):
            from tcopt.support.pipelines.text import parse_specs

            passes = parse_specs(passes)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "passes", tuple(passes))

    @property
    def text(self) -> str:
        """The passes as text."""
        return passes_text(self.passes)

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"

    def without(self, *names: str) -> Phase:
        """Return the phase without the passes of these names."""
        return Phase(self.name, (each for each in self.passes if each.name not in names))

    def mapped(self, change: Callable[[PassSpec], Iterable[PassSpec]]) -> Phase:
        """Return the phase with each pass replaced by the results of a function."""
        return Phase(self.name, (new for each in self.passes for new in change(each)))


def configured(phases: Iterable[Phase], name: str, **options: Value) -> list[Phase]:
    """Return the phases with options set for all passes of a name."""
    return [
        phase.mapped(lambda p: [p.having(**options) if p.name == name else p]) for phase in phases
    ]


def pipeline_text(phases: Iterable[Phase]) -> str:
    """Return all passes of all phases as one text, as for `tcopt -p`."""
    return passes_text(each for phase in phases for each in phase.passes)


def up_to(phases: Iterable[Phase], name: str) -> list[Phase]:
    """Return the phases up to and including the phase of a given name.

    Raises:
        InputError: there is no such phase.
    """
    found = list(phases)
    names = [phase.name for phase in found]
    if name not in names:
        raise InputError(f"there is no phase '{name}'", hint=f"phases are {', '.join(names)}")
    return found[: names.index(name) + 1]


_PLACES = ("before", "after", "instead-of")


def with_passes(phases: Iterable[Phase], added: dict[str, Passes]) -> list[Phase]:
    """Return the phases with passes added.

    Args:
        added: passes by position: `before:NAME`, `after:NAME` or `instead-of:NAME`. NAME is a pass,
            at each occurrence, or a phase as a whole.
    Raises:
        ParsingError: a position does not exist.
    """
    found = list(phases)
    for place, passes in added.items():
        where, _, name = place.partition(":")
        if where not in _PLACES or not name:
            hint = "use before:NAME, after:NAME or instead-of:NAME of a pass or a phase"
            raise ParsingError(f"'{place}' is not a position in a pipeline", hint=hint)
        found = _with_passes_at(found, where, name, passes)
    return found


def _with_passes_at(phases: list[Phase], where: str, name: str, passes: Passes) -> list[Phase]:
    def around(kept: Iterable[PassSpec]) -> Passes:
        before = passes if where != "after" else ()
        after = passes if where == "after" else ()
        return (*before, *(() if where == "instead-of" else kept), *after)

    if any(phase.name == name for phase in phases):
        return [Phase(p.name, around(p.passes)) if p.name == name else p for p in phases]
    running = {each.name for phase in phases for each in phase.passes}
    if name not in running:
        known = {*running, *(phase.name for phase in phases)}
        hint = suggest(name, known) or f"passes that run are {', '.join(sorted(running))}"
        raise ParsingError(f"there is no pass or phase '{name}' in the pipeline", hint=hint)
    return [phase.mapped(lambda p: around([p]) if p.name == name else [p]) for phase in phases]
