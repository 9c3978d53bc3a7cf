"""Roles of the variables of a contraction for the matrix unit."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from tcopt.dialects.loop.analysis import buffer_shape, value_ranges
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.schedules.analysis.patterns import BlockPattern, StridedAccess, match_block
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.rule import Declined
from tcopt.schedules.rules.vdla.epilogue import Epilogue, find_epilogue
from tcopt.schedules.rules.vdla.layouts import Layout, element_of
from tcopt.support.arithmetic.affine import linear_sum


@dataclass(frozen=True)
class Source(Layout):
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
class Roles:
    """Roles of the variables, by position.

    Attributes:
        lanes, inner: output and input channels of a block, which the unit multiplies at once.
        pixels: spatial variables that move data but not weights, outermost first.
        outputs: spatial variables that move weights but not data.
        depth: the reduce variable whose parts are loaded one after the other.
        taps: the other reduce variables.
        shared: spatial variables that move both operands: groups.
        epilogue: the operations of the ALU on the sums.
    """

    pattern: BlockPattern
    lanes: int
    inner: int
    pixels: tuple[int, ...]
    outputs: tuple[int, ...]
    depth: int | None
    taps: tuple[int, ...]
    shared: tuple[int, ...]
    data: Source
    weights: Source
    results: Layout
    epilogue: Epilogue


def find_roles(sch: Schedule, pattern: BlockPattern, facts: VdlaTargetAttr) -> Roles | Declined:
    """Assign the roles, or decline with what the unit cannot do."""
    rows, lanes, inner = facts.unit
    if rows != 1:
        return Declined("the unit multiplies several rows at once")
    found = _unit_variables(pattern, lanes, inner)
    if found is None:
        return Declined(f"no variables are the {lanes} output and {inner} input channels of a unit")
    lane, depth_lane, data, weights = found
    moving = [v for v in pattern.variables if v not in (lane, depth_lane)]
    if any(each.steps[v] is None for each in (data, weights, pattern.store) for v in moving):
        return Declined("an operand is not read at linear indices")
    spatial = [v for v in pattern.spatial if v in moving]
    reduce = [v for v in pattern.reduce if v in moving]
    depth = [v for v in reduce if data.uses(v) and weights.uses(v) and _is_alone(data, v, moving)]
    depth = sorted(depth, key=lambda v: -pattern.extents[v])[:1]
    source = _source(sch, pattern, data)
    sums = sch.get_block(pattern.block.block_name.data)
    epilogue = find_epilogue(sch, sums, pattern, facts, source.producer)
    if isinstance(epilogue, Declined):
        return epilogue
    return Roles(
        pattern,
        lane,
        depth_lane,
        tuple(v for v in spatial if not weights.uses(v)),
        tuple(v for v in spatial if weights.uses(v) and not data.uses(v)),
        depth[0] if depth else None,
        tuple(v for v in reduce if v not in depth),
        tuple(v for v in spatial if weights.uses(v) and data.uses(v)),
        source,
        _source(sch, pattern, weights),
        Layout.plain(pattern.store),
        epilogue,
    )


def _unit_variables(
    pattern: BlockPattern, lanes: int, inner: int
) -> tuple[int, int, StridedAccess, StridedAccess] | None:
    """Return output and input channels of the unit, data, and weights."""
    if len(pattern.terms) != 2:
        return None
    for data, weights in (pattern.terms, pattern.terms[::-1]):
        for lane in pattern.spatial:
            if pattern.extents[lane] != lanes or data.uses(lane) or not pattern.store.is_unit(lane):
                continue
            for depth in pattern.reduce:
                steps = weights.steps[lane]
                if (
                    pattern.extents[depth] == inner
                    and data.is_unit(depth, -1 + len(buffer_shape(data.buffer)))
                    and weights.is_unit(depth, -1 + len(buffer_shape(weights.buffer)))
                    and steps is not None
                    and steps == (*[0] * (len(steps) - 2), 1, 0)
                ):
                    return lane, depth, data, weights
    return None


def _is_alone(data: StridedAccess, variable: int, others: list[int]) -> bool:
    """Whether a variable moves a dimension of the data that no other variable moves."""
    steps = data.steps[variable] or ()
    dims = [dim for dim, step in enumerate(steps) if step]
    return not any(
        (data.steps[other] or ())[dim] for dim in dims for other in others if other != variable
    )


def _source(sch: Schedule, pattern: BlockPattern, term: StridedAccess) -> Source:
    shape = buffer_shape(term.buffer)
    steps = [each or (0,) * len(shape) for each in term.steps]
    producer = _padding(sch, pattern, term)
    if producer is not None:
        block, original, pads = producer
        return Source(original, tuple(steps), (1,) * len(shape), pads, term, block)
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
    return Source(shape, tuple(divided), tuple(found), ((0, 0),) * len(shape), term)


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


def multiplies_bytes(pattern: BlockPattern) -> bool:
    """Whether bytes are multiplied and summed in 32 bits."""
    terms = [element_of(term.buffer) for term in pattern.terms]
    return terms == [i8, i8] and element_of(pattern.store.buffer) == i32
