"""Summary of an op's memory effects, from its traits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue
from xdsl.traits import (
    IsTerminator,
    MemoryEffect,
    MemoryEffectKind,
    RecursiveMemoryEffect,
    SymbolOpInterface,
    get_effects,
)


class Effects(NamedTuple):
    """Memory effects of an op; `writes` includes frees and unknown effects."""

    reads: bool
    writes: bool
    allocates: bool

    @property
    def none(self) -> bool:
        """Whether the op does nothing but compute its results."""
        return not (self.reads or self.writes or self.allocates)


_NONE = Effects(False, False, False)
_UNKNOWN = Effects(True, True, True)
_by_type: dict[type[Operation], Effects | None] = {}


def effects_of(op: Operation) -> Effects:
    """Return the effects of an op, including its regions; cached by class."""
    kind = type(op)
    if kind not in _by_type:
        _by_type[kind] = _class_effects(op)
    known = _by_type[kind]
    return _with_regions(op) if known is None else known


def _class_effects(op: Operation) -> Effects | None:
    """Effects shared by all ops of a class; None if they depend on regions."""
    if any(isinstance(trait, RecursiveMemoryEffect) for trait in op.traits):
        return None
    if not any(isinstance(trait, MemoryEffect) for trait in op.traits):
        return _NONE if op.has_trait(IsTerminator) else _UNKNOWN
    effects = get_effects(op)
    if effects is None:
        return _UNKNOWN
    kinds = {effect.kind for effect in effects}
    return Effects(
        MemoryEffectKind.READ in kinds,
        MemoryEffectKind.WRITE in kinds or MemoryEffectKind.FREE in kinds,
        MemoryEffectKind.ALLOC in kinds,
    )


def _with_regions(op: Operation) -> Effects:
    total = _NONE
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                found = effects_of(inner)
                total = Effects(
                    total.reads or found.reads,
                    total.writes or found.writes,
                    total.allocates or found.allocates,
                )
    return total


def accessed(op: Operation) -> Sequence[SSAValue] | None:
    """Return the operands whose memory an op may read or write; None if it may be any buffer."""
    effects = effects_of(op)
    if effects.none:
        return ()
    return None if op.regions or effects is _UNKNOWN else op.operands


def is_removable(op: Operation) -> bool:
    """Whether an op may be removed once its results are unused."""
    return (
        not effects_of(op).writes
        and not op.has_trait(IsTerminator)
        and not op.has_trait(SymbolOpInterface)
    )
