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

        @property
        def vectors(self) -> VectorUnits:
            return VectorUnits(bits=32 * self.lanes.data, cores=self.cells.data)

Passes ask these questions and never what kind of attribute it is, so what a target answers here is
all that layouts, packed weights, Winograd and fusion depend on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeVar

from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.irdl import BaseAttr
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tcopt.dialects.target.convolution_costs import ConvolutionCosts
from tcopt.dialects.target.facts import (
    ACCELERATOR_ATTRIBUTE,
    TARGET_ATTRIBUTE,
    Facts,
    facts_of,
    parse_facts,
    print_facts,
)
from tcopt.dialects.target.hardware import PlacedMemory, ThreadBlocks, VectorUnits

_Self = TypeVar("_Self", bound="TargetFacts")


class TargetFacts(ParametrizedAttribute):
    """Base of the attributes that say what a module is compiled for.

    Attributes:
        DEFAULTS: parameters that need not be written, and what they are then.
        LEFT_OUT: those of them that are not printed either.
    """

    DEFAULTS: ClassVar[Mapping[str, str | int]] = {}
    LEFT_OUT: ClassVar[Sequence[str]] = ()

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
    def vectors(self) -> VectorUnits | None:
        """The vectors that its cores compute with; None where they do not."""
        return None

    @property
    def threads(self) -> ThreadBlocks | None:
        """The blocks of threads that it runs; None where it runs loops."""
        return None

    @property
    def memories(self) -> Mapping[str, PlacedMemory]:
        """The memories that programs place buffers in, by memory scopes."""
        return {}

    @property
    def lanes_are_threads(self) -> bool:
        """Whether neighbours are computed by threads beside each other, not by one in vectors."""
        return self.threads is not None

    def vector_lanes(self, bits: int = 32) -> int:
        """Elements of a width that one instruction loads or stores; 1 without vectors."""
        if self.vectors is not None:
            return self.vectors.lanes(bits)
        return 1 if self.threads is None else max(1, self.threads.vector_bits // bits)

    @property
    def channel_lanes(self) -> int:
        """Channels that contractions compute side by side, so that they are stored in blocks of
        them; 0 where neighbours are pixels."""
        return 0 if self.vectors is None else self.vectors.lanes()

    @property
    def has_fused_multiply_add(self) -> bool:
        """Whether a product and a sum are rounded once in one instruction."""
        return True

    @property
    def convolution_costs(self) -> ConvolutionCosts | None:
        """The times of convolutions; None keeps the direct form."""
        if self.vectors is not None:
            from tcopt.dialects.target.vector_costs import VectorCosts

            return VectorCosts(self.vectors)
        if self.threads is not None:
            from tcopt.dialects.target.thread_costs import ThreadCosts

            return ThreadCosts(self.threads)
        return None

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
        usual = {name: self.DEFAULTS[name] for name in self.LEFT_OUT}
        shown = {k: v for k, v in self.facts().items() if usual.get(k) != v}
        print_facts(printer, shown)


def target_facts_of(module: ModuleOp) -> TargetFacts | None:
    """What a module says that it is compiled for; None if it says nothing."""
    target = module.attributes.get(TARGET_ATTRIBUTE)
    return target if isinstance(target, TargetFacts) else None


def target_around(op: Operation) -> TargetFacts | None:
    """What an op is for: what it, or the nearest op around it, names; None if none names any."""
    current: Operation | None = op
    while current is not None:
        target = current.attributes.get(TARGET_ATTRIBUTE)
        if target is not None:
            return target if isinstance(target, TargetFacts) else None
        current = current.parent_op()
    return None


def places_data(op: Operation) -> bool:
    """Whether an op is for a machine with memories that programs place data in."""
    target = target_around(op)
    return target is not None and bool(target.memories)


def accelerator_of(module: ModuleOp) -> TargetFacts | None:
    """The accelerator that a module says stands beside its target; None if it names none."""
    target = module.attributes.get(ACCELERATOR_ATTRIBUTE)
    return target if isinstance(target, TargetFacts) else None


def thread_blocks_of(module: ModuleOp) -> ThreadBlocks | None:
    """The blocks of threads that a module's target runs; None if it runs none."""
    target = target_facts_of(module)
    return None if target is None else target.threads
