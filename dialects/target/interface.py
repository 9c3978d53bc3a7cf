"""What a target's attribute answers: the questions of passes, rules and tools.

A kind of target describes its hardware by an attribute of its own, a subclass of `TargetFacts`
whose parameters are `IntAttr` and `StringAttr`. It prints and parses as `#name<a = "text", b = 1>`,
and answers what passes ask; what it does not say has an answer that is right for every hardware,
if not the fastest.

    @irdl_attr_definition
    class ToyFacts(TargetFacts):
        name = "toy.machine"
        DEFAULTS: ClassVar = {"lanes": 4}

        cells: IntAttr = param_def()
        lanes: IntAttr = param_def()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeVar

from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import BaseAttr
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tcopt.dialects.target.facts import TARGET_ATTRIBUTE, Facts, facts_of, parse_facts, print_facts

_Self = TypeVar("_Self", bound="TargetFacts")


class TargetFacts(ParametrizedAttribute):
    """Base of the attributes that say what a module is compiled for.

    Attributes:
        DEFAULTS: parameters that need not be written, and what they are then.
    """

    DEFAULTS: ClassVar[Mapping[str, str | int]] = {}

    @property
    def kind(self) -> str:
        """The name of the kind of target, as in `--target KIND`."""
        return self.name.partition(".")[0]

    @property
    def rules(self) -> str:
        """What schedule rules for it are registered for."""
        return self.kind

    @property
    def capabilities(self) -> frozenset[str]:
        """What intrinsics, rules and passes may require by name."""
        return frozenset()

    @property
    def lanes_are_threads(self) -> bool:
        """Whether neighbours are computed by threads beside each other, not by one in vectors."""
        return False

    @classmethod
    def fact_names(cls) -> tuple[list[str], list[str]]:
        """The names of its parameters: texts, and numbers."""
        texts: list[str] = []
        numbers: list[str] = []
        for name, parameter in cls.get_irdl_definition().parameters:
            constraint = parameter.constr
            assert isinstance(constraint, BaseAttr)
            (texts if constraint.attr is StringAttr else numbers).append(name)
        return texts, numbers

    def facts(self) -> Facts:
        """Its parameters by name."""
        return facts_of(self, *type(self).fact_names())

    @classmethod
    def of_facts(cls: type[_Self], facts: Mapping[str, str | int]) -> _Self:
        """The attribute with these parameters; VerifyException if there is none."""
        values = {**cls.DEFAULTS, **facts}
        texts, _ = cls.fact_names()
        parameters: list[Attribute] = [
            StringAttr(str(values[name])) if name in texts else IntAttr(int(values[name]))
            for name, _ in cls.get_irdl_definition().parameters
        ]
        made = cls.new(parameters)
        made.verify()
        return made

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        texts, numbers = cls.fact_names()
        found = parse_facts(parser, texts, numbers, cls.DEFAULTS)
        by_name = dict(zip((*texts, *numbers), found, strict=True))
        return [by_name[name] for name, _ in cls.get_irdl_definition().parameters]

    def print_parameters(self, printer: Printer) -> None:
        print_facts(printer, self.facts())


def target_facts_of(module: ModuleOp) -> TargetFacts | None:
    """What a module says that it is compiled for; None if it says nothing."""
    target = module.attributes.get(TARGET_ATTRIBUTE)
    return target if isinstance(target, TargetFacts) else None
