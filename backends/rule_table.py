"""Tables of rules: what a backend does for an op, one function an op, added by decorator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, TypeVar

from xdsl.ir import Operation

from tcopt.support.registration import Registry
from tcopt.support.registry import import_all

Rule = TypeVar("Rule", bound=Callable[..., None])
_Own = TypeVar("_Own", bound=Callable[..., None])


class RuleTable(Generic[Rule]):
    """The rules of a backend by the names of their ops.

    Names, so that xDSL's class of an op and this project's completed one share a rule.

    Attributes:
        registry: where they are.
    """

    def __init__(self, package: str):
        """
        Args:
            package: where the rules are, such as `tcopt.backends.llvm.ops`; its modules are
                imported when the rules are asked for, so that a new op is a new function there.
        """
        self.registry: Registry[str, Rule] = Registry(
            f"rule of {package} for", partial(import_all, package)
        )

    def rule_for(self, *ops: type[Operation]) -> Callable[[_Own], _Own]:
        """Register a function as the rule of these op classes.

        Raises:
            InputError: an op has a rule already.
        """

        def register(rule: _Own) -> _Own:
            for op in ops:
                self.registry.add(op.name, rule)  # pyright: ignore[reportArgumentType]
            return rule

        return register

    def rules(self) -> Mapping[str, Rule]:
        """All rules by op name, importing their modules first."""
        return self.registry.values_by_key()
