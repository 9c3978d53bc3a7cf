"""Tables of rules by class of op, registered by a decorator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from xdsl.ir import Operation

from tcopt.support.registries.registration import Registry
from tcopt.support.registries.registry import import_all

Rule = TypeVar("Rule", bound=Callable[..., Any])
_Own = TypeVar("_Own", bound=Callable[..., Any])
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class RuleTable(Generic[Rule]):
    """Rules by class of op.

    Keyed by op name, so that xDSL's class of an op and this project's extended one share a rule.
    A rule for a base class serves its subclasses, unless they have one of their own.

    Attributes:
        registry: holds the rules.
    """

    def __init__(self, home: str):
        """
        Args:
            home: the module or package with the rules, such as `tcopt.backends.llvm.ops`; its
                modules are imported on the first look-up, so a new op only needs a new function
                there.
        """
        self.registry: Registry[str, Rule] = Registry(
            f"rule of {home} for", partial(import_all, home)
        )
        # Results of `of`, by class and generation of the registry.
        self._found: dict[tuple[type[Operation], int], Rule | None] = {}

    def rule_for(self, *ops: type[Operation]) -> Callable[[_Own], _Own]:
        """Register a function as the rule of these op classes.

        Raises:
            InputError: an op already has a rule.
        """

        def register(rule: _Own) -> _Own:
            for op in ops:
                self.registry.add(_key(op), rule)  # pyright: ignore[reportArgumentType]
            return rule

        return register

    def rules(self) -> Mapping[str, Rule]:
        """Return all rules by op name, after importing their modules."""
        return self.registry.values_by_key()

    def of(self, op: Operation) -> Rule | None:
        """Return the rule of the first class of an op, in method resolution order, that has one;
        None if no class has a rule."""
        rules = self.rules()
        cls, generation = type(op), self.registry.generation
        found = self._found
        if (cls, generation) not in found:
            keys = map(_key, cls.__mro__)
            rule = next((rules[key] for key in keys if key in rules), None)
            found[cls, generation] = rule
        return found[cls, generation]


class OpFunction(
    RuleTable[Callable[Concatenate[Any, Parameters], Result]], Generic[Parameters, Result]
):
    """A function of an op, and of further arguments, that is defined by a rule for each class.

    panel_form: OpFunction[[], PanelForm | None] = OpFunction(__name__, None)

    @panel_form.rule_for(MatmulOp)
    def _matmul(op: MatmulOp) -> PanelForm | None: ...
    """

    def __init__(self, home: str, default: Result):
        """
        Args:
            home: the module or package with the rules.
            default: result for an op without a rule.
        """
        super().__init__(home)
        self.default = default

    def __call__(
        self, op: Operation, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        """Return the result for an op."""
        rule = self.of(op)
        return self.default if rule is None else rule(op, *args, **kwargs)


def _key(cls: type[object]) -> str:
    """Return the name of an op class; the path of a class without one, such as an abstract one."""
    return vars(cls).get("name") or f"{cls.__module__}.{cls.__qualname__}"
