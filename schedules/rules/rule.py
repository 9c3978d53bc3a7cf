"""Schedule rules: who writes the schedule of a function for a target.

A rule is a class in a file of its own below `schedules/<target kind>/`:

    @schedule_rule(target="cpu", priority=10)
    class Elementwise:
        name = "cpu-elementwise"

        def apply(self, sch: Schedule, target: CpuFacts) -> Declined | None:
            if ...:
                return Declined("a block reduces")
            ...

Rules are asked from the highest priority to the lowest. The first that does not decline has
written the schedule; the last one should take everything.

A rule that leaves something open says so by a `Space` (`schedules/spaces/space.py`), and takes its
decisions from a choice alone:

        def space(self, sch: Schedule, target: CpuFacts) -> TileSpace | Declined: ...
        def apply(self, sch, target, space: TileSpace, choice: Choice) -> Declined | None: ...

A rule of CPUs or GPUs without a space says in one line, `closed`, why there is nothing to choose.
`space` looks at the function, declines or not, and edits nothing. What is chosen is recorded in the
schedule, and others are tried by asking the rule again. A rule with `template = True` is a template
for any function, and asked only where schedules are searched. One with `last_resort = True` is
there for what no other takes, and not searched where there is another.

A pass on graphs that chooses a form of an operator counts on a rule that carries it out. A rule
says which forms it is for (`provides`), and may look at an operator first (`accepts`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from xdsl.ir import Attribute, Operation

from tcopt.dialects.graph.forms import answers_for_forms
from tcopt.dialects.target import TargetFacts
from tcopt.support.registration import Registry
from tcopt.support.registry import import_all
from tcopt.support.target_registry import HOST_KIND

if TYPE_CHECKING:
    from tcopt.dialects.loop import FuncOp
    from tcopt.schedules.api.schedule import Schedule
    from tcopt.schedules.spaces.space import Choice, Space


@dataclass(frozen=True)
class Declined:
    """A rule's answer that it does not schedule this function, and why.

    Attributes:
        reason: what it misses.
        quiet: it is for a rare kind of function that this one plainly is not, so that the
            reason would tell nobody anything; it is not recorded.
    """

    reason: str
    quiet: bool = False


class ScheduleRule(Protocol):
    """What a rule has: a name, and the schedule it makes.

    `apply` calls the primitives of `sch`. Its second argument is what `target_facts` made of
    the target. What it did to the function before it declines is forgotten.

    A rule may have `provides`, the names of the forms of operators that it is for, as a graph
    op's `COUNTS_ON` names them; and `accepts`, which is asked before an operator is given such a
    form, and declines what the rule would decline.
    """

    name: str

    def apply(self, sch: Schedule, target: Any, /) -> Declined | None: ...


class TunableRule(Protocol):
    """What a rule that leaves something open has: a space for a function, and a schedule for each
    choice of it."""

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
"""Priority and rule by target kind and the rule's name."""

ESTIMATES: Registry[str, Callable[[FuncOp, FuncOp, Any], Estimate | None]] = Registry(
    "estimate of target"
)
"""What estimates the time of scheduled functions, by target kind."""

FACTS: Registry[str, Callable[[Attribute | None], object]] = Registry("facts of target")
"""What turns a target's attribute into facts, by target kind."""


def schedule_rule(*, target: str, priority: int) -> Callable[[_Rule], _Rule]:
    """Register a rule class for a target kind such as `cpu`.

    Raises:
        InputError: the kind has a rule of that name.
    """

    def register(rule: _Rule) -> _Rule:
        made = rule()
        RULES.add((target, made.name), (priority, made))
        return rule

    return register


def target_facts(target: str) -> Callable[[_Facts], _Facts]:
    """Register what turns a target's attribute into the facts its rules are given."""

    def register(read: _Facts) -> _Facts:
        FACTS[target] = read
        return read

    return register


@dataclass(frozen=True)
class Estimate:
    """How long a scheduled function takes, against what its target allows.

    Attributes:
        ns: nanoseconds of the loops as they are.
        limit_ns: nanoseconds that its operations and its bytes take at best.
        reason: what costs most, for people.
    """

    ns: float
    limit_ns: float
    reason: str

    @property
    def share(self) -> float:
        """The part of what the target allows that is reached, about; 1 is all."""
        return self.limit_ns / self.ns if self.ns else 1.0


def target_estimate(target: str) -> Callable[[_Estimate], _Estimate]:
    """Register what estimates scheduled functions of a target kind.

    It is given a function before and after scheduling, and the facts that rules are given; None
    says that it cannot tell.
    """

    def register(read: _Estimate) -> _Estimate:
        ESTIMATES[target] = read
        return read

    return register


def target_kind(target: Attribute | None) -> str:
    """What rules for a target are registered for: `cpu` without one."""
    if target is None:
        return HOST_KIND
    return target.rules if isinstance(target, TargetFacts) else target.name.rpartition(".")[2]


def rules_for(kind: str, *, templates: bool = False) -> list[AnyRule]:
    """The rules of a target kind, highest priority first, then by name.

    Args:
        templates: also those that are asked only where schedules are searched.
    """
    _import_rules(kind)
    known = [item for (target, _), item in RULES.items() if target == kind]
    if not templates:
        known = [item for item in known if not is_template(item[1])]
    ordered = sorted(known, key=lambda item: (-item[0], item[1].name))
    return [rule for _, rule in ordered]


@cache
def _import_rules(kind: str) -> None:
    """Let what a target kind has register itself, once."""
    package = f"tcopt.schedules.rules.{kind}"
    if find_spec(package) is not None:
        import_all(package)


def is_template(rule: AnyRule) -> bool:
    """Whether a rule is asked only where schedules are searched."""
    return bool(getattr(rule, "template", False))


def is_last_resort(rule: AnyRule) -> bool:
    """Whether a rule is there for what no other takes."""
    return bool(getattr(rule, "last_resort", False))


def space_of(rule: AnyRule, sch: Schedule, facts: object) -> Space | Declined | None:
    """What a rule leaves open for a function; None for a rule that leaves nothing open."""
    ask: Callable[[Schedule, object], Space | Declined] | None = getattr(rule, "space", None)
    return None if ask is None else ask(sch, facts)


def provides(rule: AnyRule, form: str) -> bool:
    """Whether a rule carries out a form of operators."""
    return form in getattr(rule, "provides", ())


@answers_for_forms
def form_declined(form: str, op: Operation, target: Attribute | None) -> str | None:
    """Why no rule of a target would carry out an operator in a form; None if one would."""
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
    """What rules are given for a target: its attribute unless its kind registered more."""
    kind = target_kind(target)
    _import_rules(kind)
    read = FACTS.get(kind)
    return target if read is None else read(target)
