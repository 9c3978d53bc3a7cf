"""Compilers with one decision changed, to show how much that decision gains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tcopt.schedules.passes import schedule
from tcopt.schedules.rules import rule as rules
from tcopt.schedules.rules.rule import AnyRule, Declined
from tcopt.schedules.spaces.space import Choice, Space
from tcopt.support.errors import InputError
from tcopt.support.pipelines.phases import Phase, configured

Look = Callable[[Space], Choice | None]
"""A function that sees a space, and may return another default for it."""


@dataclass(frozen=True)
class Variant:
    """A change of the compiler.

    Attributes:
        title: shown in the report.
        without_rule: a schedule rule that is not asked.
        without_pass: a pass that does not run.
        options: of passes, by their names.
        choice: values of knobs in place of the default, in every space that has the knob.
    """

    title: str
    without_rule: str = ""
    without_pass: str = ""
    options: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    choice: Mapping[str, int] = field(default_factory=dict)

    def phases(self, phases: Sequence[Phase]) -> list[Phase]:
        """The pipeline, changed."""
        found = list(phases)
        for name, options in self.options.items():
            found = configured(found, name, **options)
        return [each.without(self.without_pass) for each in found] if self.without_pass else found

    def rules(self) -> AbstractContextManager[None]:
        """Change the schedule rules of this process while the context is open."""
        if self.without_rule:
            return _changed(lambda found: [r for r in found if r.name != self.without_rule])
        if self.choice:
            return watching(partial(_choosing, changed=self.choice))
        return nullcontext()


VARIANTS = {
    "": Variant(""),
    "fusion": Variant("without fusion", options={"fuse-ops": {"max_ops": 1}}),
    "cooperation": Variant("without cooperative fetching", without_rule="gpu-shared-tile"),
    "winograd": Variant("without Winograd", without_pass="winograd"),
    "split-k": Variant("without split-K", choice={"parts": 1}),
    "ahead": Variant("without fetching ahead", choice={"ahead": 0, "stages": 1}),
}


def _choosing(space: Space, changed: Mapping[str, int]) -> Choice | None:
    """Return the default of a space with other values of the knobs that it has."""
    own = {knob.name: changed[knob.name] for knob in space.knobs if knob.name in changed}
    return {**space.default(), **own} if own else None


@dataclass(frozen=True)
class _Watched:
    """A rule whose spaces are passed to a function, which may return another default."""

    rule: Any
    look: Look

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rule, name)

    def space(self, sch: Any, facts: Any) -> Space | Declined | None:
        found = self.rule.space(sch, facts)
        if isinstance(found, Space) and (choice := self.look(found)) is not None:
            kept = dict(choice)
            if not found.is_valid(kept):
                raise InputError(f"{self.rule.name} has no schedule with {kept}")
            found.default = lambda: kept  # type: ignore[method-assign]
        return found


def watching(look: Look, name: str = "") -> AbstractContextManager[None]:
    """Pass the spaces of rules to a function, which may return another default.

    Args:
        name: of the rule; otherwise of all rules that have spaces.
    """

    def watched(rule: Any) -> Any:
        is_watched = rule.name == name if name else hasattr(rule, "space")
        return _Watched(rule, look) if is_watched else rule

    return _changed(lambda found: [watched(rule) for rule in found])


@contextmanager
def _changed(change: Callable[[Sequence[AnyRule]], Sequence[Any]]) -> Iterator[None]:
    every = rules.rules_for
    schedule.rules_for = lambda kind: tuple(change(every(kind)))
    try:
        yield
    finally:
        schedule.rules_for = every
