"""A contraction with the operands and the epilogue of VDLA."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

from xdsl.ir import SSAValue

from tcopt.dialects.loop.analysis import buffer_shape, value_ranges
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.schedules.analysis.patterns import BlockPattern, StridedAccess, match_block
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.accelerator.products import Products, find_products
from tcopt.schedules.rules.rule import Declined
from tcopt.schedules.rules.vdla.epilogue import Epilogue, find_epilogue
from tcopt.schedules.rules.vdla.layouts import VdlaLayout
from tcopt.support.arithmetic.affine import linear_sum


@dataclass(frozen=True)
class OperandSource(VdlaLayout):
    """An operand in memory.

    Attributes:
        term: the block's read of the operand.
        producer: the block that pads it, if there is one.
    """

    term: StridedAccess
    producer: Block | None = None

    @property
    def buffer(self) -> SSAValue:
        """The buffer that the block reads."""
        return self.term.buffer


@dataclass(frozen=True)
class VdlaRoles(Products):
    """A contraction, and what is computed from its sums.

    `depth` is at most one variable, whose parts are loaded one after the other.

    Attributes:
        inputs, kernel: data and weights in memory.
        epilogue: the operations of the ALU on the sums.
    """

    inputs: OperandSource
    kernel: OperandSource
    results: VdlaLayout
    epilogue: Epilogue


def find_roles(sch: Schedule, facts: VdlaTargetAttr) -> VdlaRoles | Declined:
    """Return the only contraction of bytes in a function, or decline with what the unit lacks."""
    unit = facts.matrix_unit
    if unit.rows != 1:
        return Declined("the unit multiplies several rows at once")
    found = find_products(sch, unit)
    if isinstance(found, Declined):
        return found
    pattern, extents = found.pattern, found.pattern.extents
    depth = tuple(sorted(found.depth, key=lambda v: -extents[v])[:1])
    taps = tuple(v for v in pattern.reduce if v not in (found.inner, *depth))
    inputs = _source(sch, pattern, found.data)
    epilogue = find_epilogue(sch, found.block, pattern, facts, inputs.producer)
    if isinstance(epilogue, Declined):
        return epilogue
    parts: dict[str, Any] = {**vars(found), "depth": depth, "taps": taps}
    kernel, results = _source(sch, pattern, found.weights), VdlaLayout.plain(pattern.store)
    return VdlaRoles(**parts, inputs=inputs, kernel=kernel, results=results, epilogue=epilogue)


def _source(sch: Schedule, pattern: BlockPattern, term: StridedAccess) -> OperandSource:
    shape = buffer_shape(term.buffer)
    steps = [each or (0,) * len(shape) for each in term.steps]
    producer = _padding(sch, pattern, term)
    if producer is not None:
        block, original, pads = producer
        return OperandSource(original, tuple(steps), (1,) * len(shape), pads, term, block)
    found: list[int] = []
    for dim in range(len(shape)):
        # Strides are for rows only: strided columns would be rows with a single entry.
        common = gcd(*(step[dim] for step in steps))
        is_row = any(
            shape[later] > 1 and any(step[later] for step in steps)
            for later in range(dim + 1, len(shape) - 1)
        )
        found.append(common if common > 1 and is_row else 1)
    divided = [tuple(n // by for n, by in zip(step, found, strict=True)) for step in steps]
    return OperandSource(shape, tuple(divided), tuple(found), ((0, 0),) * len(shape), term)


def _padding(
    sch: Schedule, pattern: BlockPattern, term: StridedAccess
) -> tuple[Block, tuple[int, ...], tuple[tuple[int, int], ...]] | None:
    """Return the block that copies an operand with zero padding; None if there is none.

    Also return the shape of its source, and the padding.
    """
    for block in sch.producers(sch.get_block(pattern.block.block_name.data)):
        source = match_block(sch.block_op(block))
        if source is None or source.store.buffer is not term.buffer or len(source.terms) != 1:
            continue
        (read,) = source.terms
        if read.op is not source.store.op.operands[0].owner or read.steps != source.store.steps:
            continue
        shape, size = buffer_shape(read.buffer), buffer_shape(term.buffer)
        low = [
            -linear_sum(expr, value_ranges(list(read.op.indices))).constant
            for expr in read.op.map.data.results
        ]
        pads = tuple((n, max(a - b - n, 0)) for n, a, b in zip(low, size, shape, strict=True))
        return block, shape, pads
    return None
