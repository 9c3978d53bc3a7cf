"""Hardware intrinsics: their behaviour, the targets that have them, and their lowering.

An intrinsic is declared by its behaviour, a tensor expression, together with its lowering (TVM
paper, section 4.3). Each intrinsic is a file of this folder that calls `register`; files are
discovered automatically.

    register(
        Intrinsic(
            "bf16_dot",
            inputs={"a": ((2,), "bf16"), "b": ((2,), "bf16")},
            behaviour=behaviour,          # te: the sum of a[p] * b[p] over p, in f32
            lowering=lower,               # to [DotOp(acc, a, b)]
            requires=[{"x86_64", "avx512bf16", "avx512vl"}, {"aarch64", "bf16"}],
        )
    )

`sched.tensorize` matches loops against the behaviour and replaces them by a `loop.intrin`, the
interpreters evaluate the behaviour, and `lower-intrinsics` calls the lowering. Operands of an
accelerator's intrinsics stay in its memories: such intrinsics have no lowering, and their
behaviour may be any expression.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from xdsl.dialects.builtin import i8, i32
from xdsl.ir import Attribute, Operation

from tcopt.dialects.te import api as te
from tcopt.dialects.te.access import ReadOp
from tcopt.dialects.te.ops import Combiner, ComputeOp, FuncOp
from tcopt.dialects.te.scalar import storage_type
from tcopt.dialects.te.tensor import Stage
from tcopt.support.errors import InputError, UnsupportedError
from tcopt.support.registries.registration import Registry
from tcopt.support.registries.registry import import_all

Behaviour = Callable[..., te.Tensor]
"""Maps a placeholder for each input, passed by name, to the output tile."""

Lowering = Callable[..., Sequence[Operation]]
"""Maps the old output tile, if it is read, and the inputs, as scalars and vectors, to ops of the
kernel level; the last op returns the new output tile."""


@dataclass(frozen=True)
class Operand:
    """A tile that an intrinsic reads or writes.

    Attributes:
        name: name of the operand, for messages.
        shape: extents; () for a single element.
        element: the element type in buffers.
        is_padded: whether the tile may leave its buffer.
        outside: the value of elements outside the buffer.
    """

    name: str
    shape: tuple[int, ...]
    element: Attribute
    is_padded: bool = False
    outside: int = 0


@dataclass(frozen=True, eq=False)
class Intrinsic:
    """A hardware intrinsic.

    If its behaviour is a reduction, it computes `out += behaviour(inputs)`, otherwise `out =
    behaviour(inputs)`.

    Attributes:
        name: its name in schedules and in `loop.intrin`.
        inputs: shape and dtype of each input tile by name.
        behaviour: the value added to the output tile, one `te.sum` per element; or the new value
            of the output tile, any expression per element.
        requires: sets of capabilities as in `TargetFacts.capabilities`; a target has the intrinsic
            if it has all capabilities of one of the sets.
        lowering: builds kernel-level ops. Operands may have additional leading dimensions, one for
            each vectorized loop around the intrinsic. None if operands stay in memory: the
            target's own passes then lower the calls.
        old: the input that is the previous value of the output tile; calls do not pass it.
        padded: the inputs whose tiles may leave their buffers, where elements are `outside`.
        scopes: memory scopes by operand, `out` for the output, for an intrinsic whose operands
            stay in memory. Other operands may be in any scope in which programs do not place
            buffers.
        instruction: description of the instruction, for the target's own passes.
    """

    name: str
    inputs: Mapping[str, tuple[tuple[int, ...], str]]
    behaviour: Behaviour
    requires: Iterable[Collection[str]]
    lowering: Lowering | None = None
    old: str | None = None
    padded: Collection[str] = ()
    outside: int = 0
    scopes: Mapping[str, str] = field(default_factory=dict[str, str])
    instruction: object | None = None

    @cached_property
    def stage(self) -> Stage:
        """The behaviour as a stage of a tensor expression.

        Raises:
            InputError: it is not a single stage, or it reduces with a combiner other than a sum.
        """
        made = self.behaviour(*self._placeholders)
        if not isinstance(made, Stage):
            raise InputError(f"the behaviour of intrinsic '{self.name}' should be one te.compute")
        if made.combiner is not None and made.combiner is not Combiner.SUM:
            raise InputError(
                f"the behaviour of intrinsic '{self.name}' reduces, but not by te.sum",
                hint="name the previous value of the output by 'old'",
            )
        return made

    @property
    def adds(self) -> bool:
        """Whether it accumulates into the output."""
        return self.stage.combiner is not None

    @property
    def changes(self) -> bool:
        """Whether it reads the previous value of the output."""
        return self.adds or self.old is not None

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
        """The output, then the inputs, without `old`."""
        stage = self.stage
        return (
            Operand("out", tuple(stage.shape), storage_type(stage.dtype)),
            *(
                Operand(
                    p.name,
                    tuple(p.shape),
                    storage_type(p.dtype),
                    p.name in self.padded,
                    self.outside if p.name in self.padded else 0,
                )
                for p in self._placeholders
                if p.name != self.old
            ),
        )

    @property
    def factors(self) -> tuple[Attribute, ...]:
        """The element types of the inputs, with their signedness."""
        return tuple(p.dtype for p in self._placeholders)

    def is_on(self, capabilities: Collection[str]) -> bool:
        """Whether a target with these capabilities has the intrinsic."""
        return any(set(needed) <= set(capabilities) for needed in self.requires)

    @property
    def is_dot(self) -> bool:
        """Whether it accumulates a dot product of two groups of elements into a single element."""
        if self.lowering is None:
            return False
        shapes = [operand.shape for operand in self.operands]
        return len(shapes) == 3 and not shapes[0] and len(shapes[1]) == 1 and shapes[1] == shapes[2]


INTRINSICS: Registry[str, Intrinsic] = Registry("intrinsic", lambda: import_all(__name__))
"""Registered intrinsics by name."""

Maker = Callable[[tuple[int, ...], "int | None"], Intrinsic]
"""Builds an intrinsic from the extents of a unit and the immediate operand, if any."""

FAMILIES: Registry[str, Maker] = Registry("intrinsic family")
"""Builders of parametrised intrinsics by the prefix of their names."""


def register_family(name: str) -> Callable[[Maker], Maker]:
    """Register a family of intrinsics that differ in the shape of the hardware unit.

    For the name `vdla_gemm_1x16x16`, the function registered as `vdla_gemm` is called with (1, 16,
    16); for `vdla_max_1x16_by_0`, that of `vdla_max` is called with (1, 16) and 0.
    """

    def add(make: Maker) -> Maker:
        FAMILIES.add(name, make)
        return make

    return add


def register(intrinsic: Intrinsic) -> Intrinsic:
    """Register an intrinsic.

    Raises:
        InputError: the name is taken, or no loops can match its behaviour.
    """
    _check_behaviour(intrinsic)
    INTRINSICS.add(intrinsic.name, intrinsic, by=intrinsic.behaviour)
    return intrinsic


def _check_behaviour(intrinsic: Intrinsic) -> None:
    """Check that a behaviour is one stage that reads each input once."""
    stages = intrinsic.function.stages
    if len(stages) != 1:
        names = ", ".join(f"'{stage.stage.data}'" for stage in stages)
        raise InputError(
            f"the behaviour of intrinsic '{intrinsic.name}' has the stages {names}",
            hint="loops match one stage: write it as one te.compute",
        )
    reads = Counter(op.source for op in stages[0].walk() if isinstance(op, ReadOp))
    arguments = intrinsic.function.body.block.args
    for name, argument in zip(intrinsic.inputs, arguments, strict=True):
        if reads[argument] != 1:
            raise InputError(
                f"the behaviour of intrinsic '{intrinsic.name}' reads its input '{name}' "
                f"{reads[argument]} times",
                hint="loops match a behaviour that reads each input once",
            )


def all_intrinsics() -> dict[str, Intrinsic]:
    """Return all registered intrinsics by name, sorted."""
    return dict(sorted(INTRINSICS.items()))


def intrinsic(name: str) -> Intrinsic:
    """Return the intrinsic of this name; raise UnsupportedError if there is none."""
    known = all_intrinsics()
    if name in known:
        return known[name]
    if (match := _MEMBER.fullmatch(name)) is not None and match["family"] in FAMILIES:
        extents = tuple(map(int, match["extents"].split("x")))
        number = None if match["number"] is None else int(match["number"])
        return _member(match["family"], extents, number, FAMILIES.generation)
    families = [f"{each}_<extents>" for each in FAMILIES]
    hint = f"one of {', '.join([*known, *families])}"
    raise UnsupportedError(f"there is no intrinsic '{name}'", hint=hint)


_MEMBER = re.compile(
    r"(?P<family>\w+?)_(?P<extents>[1-9]\d{0,3}(x[1-9]\d{0,3})*)(_by_(?P<number>-?\d{1,10}))?"
)


@lru_cache(maxsize=256)
def _member(
    family: str, extents: tuple[int, ...], number: int | None, generation: int
) -> Intrinsic:
    """Return a member of a family, cached until another family is registered."""
    try:
        return FAMILIES[family](extents, number)
    except InputError as error:
        raise UnsupportedError(error.message, hint=error.hint) from None


def find_dot(
    capabilities: Collection[str], factors: tuple[Attribute, Attribute], total: Attribute
) -> Intrinsic | None:
    """Return the dot product with the largest group that a target has for two element types.

    Args:
        factors: types of the values: `ui8` for bytes in a buffer that are not negative.
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


def added_at_once(
    capabilities: Collection[str], factors: tuple[Attribute, Attribute], total: Attribute
) -> int:
    """Return the number of products of two element types that a target accumulates at once; 1
    without a suitable dot product."""
    found = find_dot(capabilities, factors, total)
    return 1 if found is None else found.operands[1].shape[0]


def byte_group(capabilities: Collection[str]) -> int:
    """Return the group size of a target's dot product of signed bytes; 0 if it has none."""
    found = find_dot(capabilities, (i8, i8), i32)
    return 0 if found is None else found.operands[1].shape[0]
