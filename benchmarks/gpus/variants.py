"""Compilers with one decision changed, to show how much that decision gains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from tcopt.schedules.passes import schedule
from tcopt.schedules.rules import rule as rules
from tcopt.schedules.rules.rule import AnyRule, Declined
from tcopt.schedules.spaces.space import Space
from tcopt.support.errors import InputError
from tcopt.support.pipelines.phases import Phase, configured


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
            return _changed(lambda found: [_choosing(rule, self.choice) for rule in found])
        return nullcontext()


VARIANTS = {
    "": Variant(""),
    "fusion": Variant("without fusion", options={"fuse-ops": {"max_ops": 1}}),
    "cooperation": Variant("without cooperative fetching", without_rule="gpu-shared-tile"),
    "winograd": Variant("without Winograd", without_pass="winograd"),
    "split-k": Variant("without split-K", choice={"parts": 1}),
    "ahead": Variant("without fetching ahead", choice={"ahead": 0, "stages": 1}),
}


def _choosing(rule: Any, choice: Mapping[str, int]) -> Any:
    return _Choosing(rule, choice) if hasattr(rule, "space") else rule


class _Choosing:
    """A rule whose default has other values of some knobs."""

    def __init__(self, rule: Any, choice: Mapping[str, int]):
        self._rule, self._choice = rule, choice

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rule, name)

    def space(self, sch: Any, facts: Any) -> Space | Declined | None:
        found = self._rule.space(sch, facts)
        if not isinstance(found, Space):
            return found
        changed = {k.name: self._choice[k.name] for k in found.knobs if k.name in self._choice}
        if changed:
            choice = {**found.default(), **changed}
            if not found.is_valid(choice):
                raise InputError(f"{self._rule.name} has no schedule with {changed}")
            found.default = lambda: choice  # type: ignore[method-assign]
        return found


@contextmanager
def _changed(change: Callable[[Sequence[AnyRule]], Sequence[Any]]) -> Iterator[None]:
    every = rules.rules_for
    schedule.rules_for = lambda kind: tuple(change(every(kind)))
    try:
        yield
    finally:
        schedule.rules_for = every
