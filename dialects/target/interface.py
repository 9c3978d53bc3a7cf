"""Interface of target attributes, which passes, schedule rules and tools query.

A kind of target describes its hardware by an attribute of its own, a subclass of `TargetFacts`
whose parameters are `IntAttr` and `StringAttr`. The attribute prints and parses as `#name<a =
"text", b = 1>` and overrides the queries below; their defaults are correct for any hardware,
though not the fastest.

    @irdl_attr_definition
    class ToyFacts(TargetFacts):
        name = "toy.machine"
        DEFAULTS: ClassVar = {"lanes": 4}

        cells: IntAttr = param_def()
        lanes: IntAttr = param_def()

        @property
        def vectors(self) -> VectorUnits:
            return VectorUnits(vector_bits=32 * self.lanes.data, cores=self.cells.data)

Passes use only these queries and never check the class of the attribute, so they determine
layouts, packed weights, Winograd and fusion completely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from tcopt.support.machines.machine import VectorUnits
from tcopt.support.machines.thread_blocks import ThreadBlocks

_Self = TypeVar("_Self", bound="TargetFacts")


@dataclass(frozen=True)
class PlacedMemory:
    """A memory whose addresses programs choose.

    Attributes:
        entries: number of entries.
        entry_bytes: bytes per entry, the unit of addresses.
    """

    entries: int
    entry_bytes: int


class TargetFacts(ParametrizedAttribute):
    """Base of the attributes that describe the target of a module.

    Attributes:
        DEFAULTS: default values of optional parameters.
        LEFT_OUT: optional parameters that are not printed if they have their default.
    """

    DEFAULTS: ClassVar[Mapping[str, str | int]] = {}
    LEFT_OUT: ClassVar[Sequence[str]] = ()

    @property
    def kind(self) -> str:
        """The name of the kind of target, as in `--target KIND`."""
        return self.name.partition(".")[0]

    @property
    def rules(self) -> str:
        """The name under which schedule rules for this target are registered."""
        return self.kind

    @property
    def capabilities(self) -> frozenset[str]:
        """Names that intrinsics, rules and passes may require."""
        return frozenset()

    @property
    def vectors(self) -> VectorUnits | None:
        """The vector units of its cores, if any."""
        return None

    @property
    def threads(self) -> ThreadBlocks | None:
        """The thread blocks that it runs; None if it runs loops."""
        return None

    @property
    def memories(self) -> Mapping[str, PlacedMemory]:
        """Memories in which programs place buffers, by memory scope."""
        return {}

    @property
    def lanes_are_threads(self) -> bool:
        """Whether adjacent elements are computed by adjacent threads, not by vector lanes."""
        return self.threads is not None

    def vector_lanes(self, bits: int = 32) -> int:
        """Return the number of elements of `bits` bits that one instruction loads or stores."""
        if self.vectors is not None:
            return self.vectors.lanes(bits)
        return 1 if self.threads is None else max(1, self.threads.vector_bits // bits)

    @property
    def channel_lanes(self) -> int:
        """Channels that a contraction computes at once, and therefore the block size of
        channel-blocked layouts; 0 if lanes are adjacent pixels."""
        return 0 if self.vectors is None else self.vectors.lanes()

    @property
    def has_fused_multiply_add(self) -> bool:
        """Whether a multiply-add rounds once, in one instruction."""
        return True

    @property
    def convolution_costs(self) -> ConvolutionCosts | None:
        """The cost model of convolutions; None always selects the direct form."""
        if self.vectors is not None:
            from tcopt.dialects.target.vector_costs import VectorCosts

            return VectorCosts(self.vectors)
        if self.threads is not None:
            from tcopt.dialects.target.thread_costs import ThreadCosts

            return ThreadCosts(self.threads)
        return None

    @classmethod
    def fact_names(cls) -> tuple[list[str], list[str]]:
        """Return the names of its parameters: strings, and integers."""
        texts: list[str] = []
        numbers: list[str] = []
        for name, parameter in cls.get_irdl_definition().parameters:
            constraint = parameter.constr
            assert isinstance(constraint, BaseAttr)
            (texts if constraint.attr is StringAttr else numbers).append(name)
        return texts, numbers

    def facts(self) -> Facts:
        """Return its parameters by name."""
        return facts_of(self, *type(self).fact_names())

    @classmethod
    def of_facts(cls: type[_Self], facts: Mapping[str, str | int]) -> _Self:
        """Return the attribute with these parameters; raise VerifyException if they are invalid."""
        made = cls.new(cls.parameters_of(facts))
        made.verify()
        return made

    @classmethod
    def parameters_of(cls, facts: Mapping[str, str | int]) -> list[Attribute]:
        """Return the parameters for these facts and the defaults of others.

        Raises TypeError for the name of no parameter, or if a required one is missing.
        """
        values = {**cls.DEFAULTS, **facts}
        texts, numbers = cls.fact_names()
        if wrong := sorted({*texts, *numbers} ^ set(values)):
            raise TypeError(f"{cls.name}: unknown or missing {', '.join(wrong)}")
        return [
            StringAttr(str(values[name])) if name in texts else IntAttr(int(values[name]))
            for name, _ in cls.get_irdl_definition().parameters
        ]

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
    """Return the target of a module; None if it has none."""
    target = module.attributes.get(TARGET_ATTRIBUTE)
    return target if isinstance(target, TargetFacts) else None


def target_around(op: Operation) -> TargetFacts | None:
    """Return the target of an op or of the nearest op around it that has one; None if none has."""
    current: Operation | None = op
    while current is not None:
        target = current.attributes.get(TARGET_ATTRIBUTE)
        if target is not None:
            return target if isinstance(target, TargetFacts) else None
        current = current.parent_op()
    return None


def places_data(op: Operation) -> bool:
    """Whether the target of an op has memories in which programs place data."""
    target = target_around(op)
    return target is not None and bool(target.memories)


def accelerator_of(module: ModuleOp) -> TargetFacts | None:
    """Return the accelerator attached to a module's target, or None."""
    target = module.attributes.get(ACCELERATOR_ATTRIBUTE)
    return target if isinstance(target, TargetFacts) else None


def thread_blocks_of(module: ModuleOp) -> ThreadBlocks | None:
    """Return the thread blocks of a module's target; None if it has none."""
    target = target_facts_of(module)
    return None if target is None else target.threads
