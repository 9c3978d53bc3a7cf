"""Pipelines as data: passes with their options, in phases.

Text is for people and other processes: `str` of a pass or a phase prints it, and a phase that is
made of text reads it. Nothing here needs xDSL, since a pipeline is told before it is known whether
there is anything to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tcopt.support.errors import ParsingError
from tcopt.support.pass_specs import Passes, PassSpec, Value, passes_text
from tcopt.support.suggestions import suggest

PHASES = ("import", "graph", "te", "loop", "schedule", "kernel", "code")
"""Names of all phases of a compile; `import` and `code` hold no passes."""

KERNEL_PHASES = ("loop", "schedule", "kernel")
"""The phases that each kernel goes through, and that may be run on one kernel alone."""


@dataclass(frozen=True, init=False)
class Phase:
    """A named stretch of a pipeline; `--compile-to` stops after one.

    Attributes:
        name: as `--compile-to` takes it.
        passes: what runs, in order.
    """

    name: str
    passes: Passes

    def __init__(self, name: str, passes: str | Iterable[PassSpec] = ()):
        """
        Args:
            passes: also as text.
        Raises:
            ParsingError: the text does not parse.
        """
        if isinstance(passes, str):
            from tcopt.support.pipelines import parse_specs

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
        """The phase without the passes of these names."""
        return Phase(self.name, (each for each in self.passes if each.name not in names))

    def mapped(self, change: Callable[[PassSpec], Iterable[PassSpec]]) -> Phase:
        """The phase with what a function gives for each pass."""
        return Phase(self.name, (new for each in self.passes for new in change(each)))


def configured(phases: Iterable[Phase], name: str, **options: Value) -> list[Phase]:
    """The phases, in which the passes of a name have other options."""
    return [
        phase.mapped(lambda p: [p.having(**options) if p.name == name else p]) for phase in phases
    ]


def pipeline_text(phases: Iterable[Phase]) -> str:
    """All passes of all phases as one text, as `tcopt -p` takes it."""
    return passes_text(each for phase in phases for each in phase.passes)


_PLACES = ("before", "after", "instead-of")


def with_passes(phases: Iterable[Phase], added: dict[str, Passes]) -> list[Phase]:
    """The phases with passes added.

    Args:
        added: what to add by where: `before:NAME`, `after:NAME` or `instead-of:NAME`, with the
            name of a pass, each time it runs, or of a phase, as a whole.
    Raises:
        ParsingError: there is no such place.
    """
    found = list(phases)
    for place, passes in added.items():
        where, _, name = place.partition(":")
        if where not in _PLACES or not name:
            hint = "it is before:NAME, after:NAME or instead-of:NAME, of a pass or a phase"
            raise ParsingError(f"'{place}' is not a place in a pipeline", hint=hint)
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
        raise ParsingError(f"no pass '{name}' runs, and no phase is called that", hint=hint)
    return [phase.mapped(lambda p: around([p]) if p.name == name else [p]) for phase in phases]
