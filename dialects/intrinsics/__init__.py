"""Hardware intrinsics: what they compute, what hardware has them, and what they become.

An intrinsic is declared by its behaviour, a tensor expression, together with its lowering (TVM
paper, section 4.3). One is a file of this folder that calls `register`; nothing else lists them.

    register(
        Intrinsic(
            "bf16_dot",
            inputs={"a": ((2,), "bf16"), "b": ((2,), "bf16")},
            behaviour=behaviour,          # te: the sum of a[p] * b[p] over p, in f32
            lowering=lower,               # to [DotOp(acc, a, b)]
            requires=[{"x86_64", "avx512bf16", "avx512vl"}, {"aarch64", "bf16"}],
        )
    )

`sched.tensorize` matches loops against the behaviour and puts a `loop.intrin` in their place,
the interpreters evaluate the behaviour, and `lower-intrinsics` calls the lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.dialects.te import api as te
from tcopt.dialects.te.ops import Combiner, ComputeOp, FuncOp
from tcopt.dialects.te.scalar import storage_type
from tcopt.dialects.te.tensor import Stage
from tcopt.support.errors import InputError, UnsupportedError
from tcopt.support.registration import Registry
from tcopt.support.registry import import_all

Behaviour = Callable[..., te.Tensor]
"""From a placeholder for each input, by its name, to the output tile."""

Lowering = Callable[..., Sequence[Operation]]
"""From the output tile and the inputs, as scalars and vectors, to ops of the kernel level, the
last of which gives the new output tile."""


@dataclass(frozen=True)
class Operand:
    """A tile that an intrinsic reads or writes.

    Attributes:
        name: for messages.
        shape: extents; () for a single element.
        element: the element type, as it is in buffers.
    """

    name: str
    shape: tuple[int, ...]
    element: Attribute


@dataclass(frozen=True, eq=False)
class Intrinsic:
    """A hardware intrinsic, `out += behaviour(inputs)`.

    Attributes:
        name: what schedules and `loop.intrin` call it.
        inputs: shape and dtype of each input tile by name.
        behaviour: what is added to the output tile: one `te.sum` of an element each.
        lowering: kernel-level ops for it. Operands may have more dimensions in front, one for
            each vectorized loop around the intrinsic.
        requires: sets of capabilities, as `Target.capabilities` gives them; a target that has
            all of one set has the intrinsic.
    """

    name: str
    inputs: Mapping[str, tuple[tuple[int, ...], str]]
    behaviour: Behaviour
    lowering: Lowering
    requires: Iterable[Collection[str]]

    @cached_property
    def stage(self) -> Stage:
        """The behaviour as a stage of a tensor expression.

        Raises:
            InputError: it is no sum over placeholders.
        """
        made = self.behaviour(*self._placeholders)
        if not isinstance(made, Stage) or made.combiner is not Combiner.SUM:
            raise InputError(f"the behaviour of intrinsic '{self.name}' should be one te.sum")
        return made

    @cached_property
    def function(self) -> FuncOp:
        """The behaviour as a `te.func` of the inputs."""
        return te.func(self.name, self._placeholders, self.stage)

    @cached_property
    def _placeholders(self) -> list[te.Placeholder]:
        return [te.placeholder(s, dtype, name=name) for name, (s, dtype) in self.inputs.items()]

    @property
    def compute(self) -> ComputeOp:
        """The one stage of `function`."""
        return self.function.stages[0]

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The output, then the inputs."""
        stage = self.stage
        return (
            Operand("out", tuple(stage.shape), storage_type(stage.dtype)),
            *(Operand(p.name, tuple(p.shape), storage_type(p.dtype)) for p in self._placeholders),
        )

    @property
    def factors(self) -> tuple[Attribute, ...]:
        """The element types of the inputs' values, with their signs."""
        return tuple(p.dtype for p in self._placeholders)

    def is_on(self, capabilities: Collection[str]) -> bool:
        """Whether a target of these capabilities has the intrinsic."""
        return any(set(needed) <= set(capabilities) for needed in self.requires)

    @property
    def is_dot(self) -> bool:
        """Whether it adds products of two groups of elements to a single one."""
        shapes = [operand.shape for operand in self.operands]
        return len(shapes) == 3 and not shapes[0] and len(shapes[1]) == 1 and shapes[1] == shapes[2]

    def lower(self, output: SSAValue, inputs: Sequence[SSAValue]) -> Sequence[Operation]:
        """The kernel-level ops, the last of which gives the new output tile."""
        return self.lowering(output, *inputs)


INTRINSICS: Registry[str, Intrinsic] = Registry("intrinsic", lambda: import_all(__name__))
"""Every intrinsic by name."""


def register(intrinsic: Intrinsic) -> Intrinsic:
    """Make an intrinsic known; InputError if there is another one of its name."""
    INTRINSICS.add(intrinsic.name, intrinsic)
    return intrinsic


def all_intrinsics() -> dict[str, Intrinsic]:
    """Every intrinsic by name, in order."""
    return dict(sorted(INTRINSICS.items()))


def intrinsic(name: str) -> Intrinsic:
    """The intrinsic of a name; UnsupportedError if there is none."""
    known = all_intrinsics()
    if name not in known:
        raise UnsupportedError(f"there is no intrinsic '{name}'", hint=f"one of {', '.join(known)}")
    return known[name]


def find_dot(
    capabilities: Collection[str], factors: tuple[Attribute, Attribute], total: Attribute
) -> Intrinsic | None:
    """The dot product that a target has for factors of two element types, of the largest group.

    Args:
        factors: of the values: `ui8` where bytes in a buffer are not negative.
    """
    found = [
        each
        for each in all_intrinsics().values()
        if each.is_dot
        and each.is_on(capabilities)
        and each.operands[0].element == total
        and each.factors == factors
    ]
    return max(found, key=lambda each: each.operands[1].shape, default=None)


def byte_group(capabilities: Collection[str]) -> int:
    """How many products of signed bytes a target adds up at once; 0 if it has no dot product."""
    found = find_dot(capabilities, (i8, i8), i32)
    return 0 if found is None else found.operands[1].shape[0]
