"""Schedule rules: classes that write the schedule of a function for a target.

A rule is a class in a separate file under `schedules/rules/<target kind>/`:

    @schedule_rule(target="cpu", priority=10)
    class Elementwise:
        name = "cpu-elementwise"

        def apply(self, sch: Schedule, target: CpuFacts) -> Declined | None:
            if ...:
                return Declined("a block reduces")
            ...

Rules are asked in order of decreasing priority. The first one that does not decline writes the
schedule; the last one should accept every function.

A rule with tunable parameters defines a `Space` for them (`schedules/spaces/space.py`), and takes
its decisions only from a choice of that space:

        def space(self, sch: Schedule, target: CpuFacts) -> TileSpace | Declined: ...
        def apply(self, sch, target, space: TileSpace, choice: Choice) -> Declined | None: ...

A rule for CPUs or GPUs without a space has a one-line attribute `closed`, which says why there is
nothing to choose. `space` inspects the function, declines or not, and edits nothing. The choice is
recorded in the schedule; to try another one, ask the rule again. A rule with `template = True`
applies to any function, and is asked only by a schedule search. One with `last_resort = True` is a
fallback, searched only if no other rule applies.

A graph pass that chooses a form of an operator relies on a rule that can schedule it. A rule lists
the forms that it schedules (`provides`), and may inspect an operator first (`accepts`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from xdsl.ir import Attribute, Operation

from tcopt.dialects.graph.core.forms import answers_for_forms
from tcopt.dialects.target import TargetFacts
from tcopt.support.registries.registration import Registry
from tcopt.support.registries.registry import import_all
from tcopt.support.registries.target_registry import HOST_KIND

if TYPE_CHECKING:
    from tcopt.dialects.loop import FuncOp
    from tcopt.schedules.api.schedule import Schedule
    from tcopt.schedules.spaces.space import Choice, Space


@dataclass(frozen=True)
class Declined:
    """Answer of a rule that does not schedule a function, with the reason.

    Attributes:
        reason: the precondition that the function does not meet.
        quiet: do not record the reason: the rule is for a rare kind of function that this one
            clearly is not.
    """

    reason: str
    quiet: bool = False


class ScheduleRule(Protocol):
    """Interface of a rule without choices.

    `apply` calls the primitives of `sch`. Its second argument is the result of `target_facts` for
    the target. If it declines, its changes to the function are discarded.

    A rule may also have `provides`, the names of the operator forms that it schedules, as in a
    graph op's `COUNTS_ON`, and `accepts`, which is asked before an operator gets such a form, and
    declines whatever the rule would decline.
    """

    name: str

    def apply(self, sch: Schedule, target: Any, /) -> Declined | None: ...


class TunableRule(Protocol):
    """Interface of a rule with choices: a space for a function, and a schedule for each choice."""

    name: str

    def space(self, sch: Schedule, target: Any, /) -> Space | Declined: ...

    def apply(
        self, sch: Schedule, target: Any, space: Any, choice: Choice, /
    ) -> Declined | None: ...


AnyRule = ScheduleRule | TunableRule

_Estimate = TypeVar("_Estimate", bound=Callable[..., "Estimate | None"])
_Rule = TypeVar("_Rule", bound=type[Any])
_Facts = TypeVar("_Facts", bound=Callable[[Attribute | None], object])

RULES: Registry[tuple[str, str], tuple[int, AnyRule]] = Registry("schedule rule")
"""Priority and rule, by target kind and name of the rule."""

ESTIMATES: Registry[str, Callable[[FuncOp, FuncOp, Any], Estimate | None]] = Registry(
    "estimate of target"
)
"""Functions that estimate the time of scheduled functions, by target kind."""

FACTS: Registry[str, Callable[[Attribute | None], object]] = Registry("facts of target")
"""Functions that convert a target's attribute to facts, by target kind."""


def schedule_rule(*, target: str, priority: int) -> Callable[[_Rule], _Rule]:
    """Register a rule class for a target kind such as `cpu`.

    Raises:
        InputError: the target kind already has a rule of that name.
    """

    def register(rule: _Rule) -> _Rule:
        made = rule()
        RULES.add((target, made.name), (priority, made), by=rule)
        return rule

    return register


def target_facts(target: str) -> Callable[[_Facts], _Facts]:
    """Register the function that converts a target's attribute to the facts passed to its rules."""

    def register(read: _Facts) -> _Facts:
        FACTS[target] = read
        return read

    return register


@dataclass(frozen=True)
class Estimate:
    """Estimated time of a scheduled function, compared with the limit of its target.

    Attributes:
        ns: estimated nanoseconds of the scheduled loops.
        limit_ns: lower bound from the number of operations and bytes, in nanoseconds.
        reason: the main cost, as text for messages.
    """

    ns: float
    limit_ns: float
    reason: str

    @property
    def share(self) -> float:
        """Approximate fraction of the attainable performance; 1 is optimal."""
        return self.limit_ns / self.ns if self.ns else 1.0


def target_estimate(target: str) -> Callable[[_Estimate], _Estimate]:
    """Register the function that estimates scheduled functions of a target kind.

    It gets a function before and after scheduling, and the facts that rules get; it returns None if
    it has no estimate.
    """

    def register(read: _Estimate) -> _Estimate:
        ESTIMATES[target] = read
        return read

    return register


def target_kind(target: Attribute | None) -> str:
    """Return the key under which rules of a target are registered; `cpu` without a target."""
    if target is None:
        return HOST_KIND
    return target.rules if isinstance(target, TargetFacts) else target.name.rpartition(".")[2]


def rules_for(kind: str, *, templates: bool = False) -> list[AnyRule]:
    """Return the rules of a target kind, highest priority first, then by name.

    Args:
        templates: include the rules that only a schedule search asks.
    """
    _import_rules(kind)
    known = [item for (target, _), item in RULES.items() if target == kind]
    if not templates:
        known = [item for item in known if not is_template(item[1])]
    ordered = sorted(known, key=lambda item: (-item[0], item[1].name))
    return [rule for _, rule in ordered]


@cache
def _import_rules(kind: str) -> None:
    """Import everything that a target kind registers, once."""
    package = f"tcopt.schedules.rules.{kind}"
    if find_spec(package) is not None:
        import_all(package)


def is_template(rule: AnyRule) -> bool:
    """Whether a rule is asked only by a schedule search."""
    return bool(getattr(rule, "template", False))


def is_last_resort(rule: AnyRule) -> bool:
    """Whether a rule is a fallback for functions that no other rule accepts."""
    return bool(getattr(rule, "last_resort", False))


def space_of(rule: AnyRule, sch: Schedule, facts: object) -> Space | Declined | None:
    """Return a rule's space of choices for a function; None for a rule without choices."""
    ask: Callable[[Schedule, object], Space | Declined] | None = getattr(rule, "space", None)
    return None if ask is None else ask(sch, facts)


def provides(rule: AnyRule, form: str) -> bool:
    """Whether a rule schedules a form of operators."""
    return form in getattr(rule, "provides", ())


@answers_for_forms
def form_declined(form: str, op: Operation, target: Attribute | None) -> str | None:
    """Return why no rule of a target would schedule an operator in a form; None if one would."""
    kind = target_kind(target)
    reasons: list[str] = []
    for rule in rules_for(kind):
        if not provides(rule, form):
            continue
        accepts = getattr(rule, "accepts", None)
        answer = None if accepts is None else accepts(op, facts_of(target))
        if not isinstance(answer, Declined):
            return None
        reasons.append(f"{rule.name}: {answer.reason}")
    return ", ".join(reasons) or f"target {kind} has no schedule rule for {form}"


def facts_of(target: Attribute | None) -> object:
    """Return the facts for the rules of a target; its attribute if no conversion is registered."""
    kind = target_kind(target)
    _import_rules(kind)
    read = FACTS.get(kind)
    return target if read is None else read(target)
