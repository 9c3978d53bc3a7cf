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
the interpreters evaluate the behaviour, and `lower-intrinsics` calls the lowering. Operands of
an accelerator's intrinsics stay in its memories: there is no lowering, and the behaviour may be
any expression.
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
from tcopt.support.registration import Registry
from tcopt.support.registry import import_all

Behaviour = Callable[..., te.Tensor]
"""From a placeholder for each input, by its name, to the output tile."""

Lowering = Callable[..., Sequence[Operation]]
"""From the old output tile, if that counts, and the inputs, as scalars and vectors, to ops of the
kernel level, the last of which returns the new output tile."""


@dataclass(frozen=True)
class Operand:
    """A tile that an intrinsic reads or writes.

    Attributes:
        name: for messages.
        shape: extents; () for a single element.
        element: the element type, as it is in buffers.
        is_padded: whether it may lie outside of its buffer.
        outside: what elements are there.
    """

    name: str
    shape: tuple[int, ...]
    element: Attribute
    is_padded: bool = False
    outside: int = 0


@dataclass(frozen=True, eq=False)
class Intrinsic:
    """A hardware intrinsic.

    Where its behaviour is a sum, it does `out += behaviour(inputs)`, otherwise
    `out = behaviour(inputs)`.

    Attributes:
        name: what schedules and `loop.intrin` call it.
        inputs: shape and dtype of each input tile by name.
        behaviour: what is added to the output tile, one `te.sum` of an element each; or what it
            becomes, any expression of an element.
        requires: sets of capabilities, as `Target.capabilities` gives them; a target that has
            all of one set has the intrinsic.
        lowering: kernel-level ops for it. Operands may have more dimensions in front, one for
            each vectorized loop around the intrinsic. None where operands stay in memory: the
            target's own passes take the calls.
        old: the input that is the output tile as it was before, which calls do not name.
        padded: the inputs whose tiles may lie outside of their buffers, where elements are
            `outside`.
        scopes: memory scopes by operand, `out` for the output, of an intrinsic whose operands stay
            in memory; others may lie in any scope that programs do not place buffers in.
        instruction: what the target's own passes make of calls, for these passes.
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
            InputError: it is not one stage, or reduces by another combiner than a sum.
        """
        made = self.behaviour(*self._placeholders)
        if not isinstance(made, Stage):
            raise InputError(f"the behaviour of intrinsic '{self.name}' should be one te.compute")
        if made.combiner is not None and made.combiner is not Combiner.SUM:
            raise InputError(
                f"the behaviour of intrinsic '{self.name}' reduces, but not by te.sum",
                hint="'old' names what the output was before",
            )
        return made

    @property
    def adds(self) -> bool:
        """Whether it adds to the output."""
        return self.stage.combiner is not None

    @property
    def changes(self) -> bool:
        """Whether what the output was before counts."""
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
        """The element types of the inputs' values, with their signs."""
        return tuple(p.dtype for p in self._placeholders)

    def is_on(self, capabilities: Collection[str]) -> bool:
        """Whether a target of these capabilities has the intrinsic."""
        return any(set(needed) <= set(capabilities) for needed in self.requires)

    @property
    def is_dot(self) -> bool:
        """Whether it adds products of two groups of elements to a single one."""
        if self.lowering is None:
            return False
        shapes = [operand.shape for operand in self.operands]
        return len(shapes) == 3 and not shapes[0] and len(shapes[1]) == 1 and shapes[1] == shapes[2]


INTRINSICS: Registry[str, Intrinsic] = Registry("intrinsic", lambda: import_all(__name__))
"""Every intrinsic by name."""

Maker = Callable[[tuple[int, ...], "int | None"], Intrinsic]
"""From the extents of a unit, and the number that an instruction has in itself, if any."""

FAMILIES: Registry[str, Maker] = Registry("intrinsic family")
"""What makes an intrinsic of its extents, by the front of the names."""


def register_family(name: str) -> Callable[[Maker], Maker]:
    """Make intrinsics known that are alike but for the unit of the machine that has them.

    `vdla_gemm_1x16x16` is what the function gives that is registered as `vdla_gemm` for
    (1, 16, 16), and `vdla_max_1x16_by_0` what that of `vdla_max` gives for (1, 16) and 0.
    """

    def add(make: Maker) -> Maker:
        FAMILIES.add(name, make)
        return make

    return add


def register(intrinsic: Intrinsic) -> Intrinsic:
    """Make an intrinsic known.

    Raises:
        InputError: there is another one of its name, or no loops can match its behaviour.
    """
    _check_behaviour(intrinsic)
    INTRINSICS.add(intrinsic.name, intrinsic)
    return intrinsic


def _check_behaviour(intrinsic: Intrinsic) -> None:
    """Refuse a behaviour that is not one expression of one element of each input."""
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
    """Every intrinsic by name, in order."""
    return dict(sorted(INTRINSICS.items()))


def intrinsic(name: str) -> Intrinsic:
    """The intrinsic of a name; UnsupportedError if there is none."""
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
    """One intrinsic of a family, for as long as the table of families stays as it is."""
    try:
        return FAMILIES[family](extents, number)
    except InputError as error:
        raise UnsupportedError(error.message, hint=error.hint) from None


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


def added_at_once(
    capabilities: Collection[str], factors: tuple[Attribute, Attribute], total: Attribute
) -> int:
    """How many products of two element types a target adds up at once; 1 if it has no dot product
    of them."""
    found = find_dot(capabilities, factors, total)
    return 1 if found is None else found.operands[1].shape[0]


def byte_group(capabilities: Collection[str]) -> int:
    """How many products of signed bytes a target adds up at once; 0 if it has no dot product."""
    found = find_dot(capabilities, (i8, i8), i32)
    return 0 if found is None else found.operands[1].shape[0]
