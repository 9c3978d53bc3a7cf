"""Tables of rules: what a backend does for an op, one function an op, added by decorator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from xdsl.ir import Operation

from tcopt.support.registry import import_all

Rule = TypeVar("Rule", bound=Callable[..., None])
_Own = TypeVar("_Own", bound=Callable[..., None])


class RuleTable(Generic[Rule]):
    """The rules of a backend by the names of their ops.

    Names, so that xDSL's class of an op and this project's completed one share a rule.
    """

    def __init__(self, package: str):
        """
        Args:
            package: where the rules are, such as `tcopt.backends.llvm.ops`; its modules are
                imported when the rules are asked for, so that a new op is a new function there.
        """
        self._package = package
        self._rules: dict[str, Rule] = {}
        self._complete = False

    def rule_for(self, *ops: type[Operation]) -> Callable[[_Own], _Own]:
        """Register a function as the rule of these op classes.

        Raises:
            ValueError: an op has a rule already.
        """

        def register(rule: _Own) -> _Own:
            for op in ops:
                if op.name in self._rules:
                    raise ValueError(f"two rules of {self._package} for {op.name}")
                self._rules[op.name] = rule  # pyright: ignore[reportArgumentType]
            return rule

        return register

    def registered(self) -> list[Rule]:
        """The rules that were registered so far."""
        return list(self._rules.values())

    def rules(self) -> dict[str, Rule]:
        """All rules by op name, importing their modules first."""
        if not self._complete:
            import_all(self._package)
            self._complete = True
        return self._rules
