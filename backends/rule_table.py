"""Tables of a backend's rules, one function per op, registered by a decorator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, TypeVar

from xdsl.ir import Operation

from tcopt.support.registries.registration import Registry
from tcopt.support.registries.registry import import_all

Rule = TypeVar("Rule", bound=Callable[..., None])
_Own = TypeVar("_Own", bound=Callable[..., None])


class RuleTable(Generic[Rule]):
    """The rules of a backend, by op name.

    Keyed by name, so that xDSL's class of an op and this project's extended one share a rule.

    Attributes:
        registry: holds the rules.
    """

    def __init__(self, package: str):
        """
        Args:
            package: the package with the rules, such as `tcopt.backends.llvm.ops`; its modules are
                imported on the first look-up, so a new op only needs a new function there.
        """
        self.registry: Registry[str, Rule] = Registry(
            f"rule of {package} for", partial(import_all, package)
        )

    def rule_for(self, *ops: type[Operation]) -> Callable[[_Own], _Own]:
        """Register a function as the rule of these op classes.

        Raises:
            InputError: an op already has a rule.
        """

        def register(rule: _Own) -> _Own:
            for op in ops:
                self.registry.add(op.name, rule)  # pyright: ignore[reportArgumentType]
            return rule

        return register

    def rules(self) -> Mapping[str, Rule]:
        """Return all rules by op name, after importing their modules."""
        return self.registry.values_by_key()
