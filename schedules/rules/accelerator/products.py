"""Find a contraction, and the roles of its variables for a matrix unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import MemRefType, i8, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.dialects.target.accelerator import MatrixUnit
from tcopt.schedules.analysis.patterns import BlockPattern, StridedAccess, match_block
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.rule import Declined
from tcopt.support.arithmetic.columns import Column


@dataclass(frozen=True)
class Products:
    """A contraction, and the roles of its variables, by position.

    Attributes:
        lane, inner: output and input channels, which the unit multiplies at once.
        outputs: spatial variables that move weights but not data.
        pixels: spatial variables that move data but not weights.
        groups: spatial variables that move both.
        depth: reduce variables that alone move a dimension of the data.
        taps: the other reduce variables.
        padding: the block that copies the data with zero padding, if there is one.
    """

    block: Block
    pattern: BlockPattern
    data: StridedAccess
    weights: StridedAccess
    lane: int
    inner: int
    outputs: tuple[int, ...]
    pixels: tuple[int, ...]
    groups: tuple[int, ...]
    depth: tuple[int, ...]
    taps: tuple[int, ...]
    padding: Block | None

    def entries(self, access: StridedAccess, sizes: Mapping[int, Column]) -> Column:
        """Return the elements of an operand that a piece of given sizes spans."""
        extents = self.pattern.extents
        rank = len(buffer_shape(access.buffer))
        return prod(
            1
            + sum(
                (sizes.get(v, extents[v]) - 1) * abs((access.steps[v] or (0,) * rank)[dim])
                for v in range(len(extents))
            )
            for dim in range(rank)
        )


def find_products(sch: Schedule, unit: MatrixUnit) -> Products | Declined:
    """Return the only contraction of bytes in a function, or decline with what the unit lacks."""
    found = [block for block in sch.blocks() if sch.block_op(block).is_reduction]
    pattern = match_block(sch.block_op(found[0])) if len(found) == 1 else None
    if pattern is None or not pattern.is_contraction or len(pattern.terms) != 2:
        return Declined("there is not exactly one contraction")
    if not pattern.has_own_buffers:
        return Declined("both operands are in one buffer")
    elements = [_element(term.buffer) for term in pattern.terms]
    if elements != [i8, i8] or _element(pattern.store.buffer) != i32:
        return Declined("it is not a contraction of bytes with 32-bit sums")
    for data, weights in (pattern.terms, pattern.terms[::-1]):
        at_once = _at_once(pattern, data, weights, unit)
        if at_once is not None:
            return _roles(sch, found[0], pattern, data, weights, at_once)
    return Declined(f"no variables are {unit.lanes} output and {unit.inner} input channels")


def _at_once(
    pattern: BlockPattern, data: StridedAccess, weights: StridedAccess, unit: MatrixUnit
) -> tuple[int, int] | None:
    """Return output and input channels of a step, both stored contiguously; None if none fit."""
    for lane in pattern.spatial:
        if pattern.extents[lane] != unit.lanes or data.uses(lane):
            continue
        steps = weights.steps[lane]
        if steps is None or steps != (*[0] * (len(steps) - 2), 1, 0):
            continue
        for inner in pattern.reduce:
            is_last = all(
                each.is_unit(inner, len(buffer_shape(each.buffer)) - 1) for each in (data, weights)
            )
            if pattern.extents[inner] == unit.inner and is_last and pattern.store.is_unit(lane):
                return lane, inner
    return None


def _roles(
    sch: Schedule,
    block: Block,
    pattern: BlockPattern,
    data: StridedAccess,
    weights: StridedAccess,
    at_once: tuple[int, int],
) -> Products | Declined:
    moving = [v for v in pattern.variables if v not in at_once]
    if any(each.steps[v] is None for each in (data, weights, pattern.store) for v in moving):
        return Declined("an operand is not read at linear indices")
    spatial = [v for v in pattern.spatial if v in moving]
    reduce = [v for v in pattern.reduce if v in moving]
    depth = [v for v in reduce if weights.uses(v) and _is_alone(data, v, moving)]
    return Products(
        block,
        pattern,
        data,
        weights,
        *at_once,
        tuple(v for v in spatial if weights.uses(v) and not data.uses(v)),
        tuple(v for v in spatial if not weights.uses(v)),
        tuple(v for v in spatial if weights.uses(v) and data.uses(v)),
        tuple(depth),
        tuple(v for v in reduce if v not in depth),
        _padding(sch, block, data),
    )


def _is_alone(data: StridedAccess, variable: int, others: list[int]) -> bool:
    """Whether a variable moves a dimension of the data that no other variable moves."""
    dims = [dim for dim, step in enumerate(data.steps[variable] or ()) if step]
    return bool(dims) and not any(
        (data.steps[other] or ())[dim] for dim in dims for other in others if other != variable
    )


def _padding(sch: Schedule, block: Block, data: StridedAccess) -> Block | None:
    for each in sch.producers(block):
        source = match_block(sch.block_op(each))
        if source is not None and source.store.buffer is data.buffer and len(source.terms) == 1:
            return each
    return None


def _element(buffer: SSAValue) -> Attribute:
    assert isa(buffer.type, MemRefType)
    return buffer.type.get_element_type()
