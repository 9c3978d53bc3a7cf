"""Estimate the time of scheduled loops on a CPU, and its lower bound by a roofline model.

Both are rough, and only meaningful where they differ by a large factor. The lower bound is that of
operations in full vectors on all cores. The estimate depends on the scheduled loops: lanes, strided
accesses, dependent sums, and threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, prod

from xdsl.ir import SSAValue

from tcopt.dialects import loop
from tcopt.dialects.loop.structure import enclosing_loops
from tcopt.schedules.analysis.patterns import body_cost, element_bits, match_block
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.roofline import address, block_variables, limit_cycles
from tcopt.schedules.rules.rule import Estimate, target_estimate
from tcopt.schedules.state.state import blocks_under
from tcopt.support.machines.machine import nanoseconds

GATHER = 16
"""Instructions for a vector gathered from computed indices, in any schedule."""

WINDOW = 256
"""Number of instructions among which a core finds independent ones."""


@dataclass(frozen=True)
class _Stream:
    """A load or store, with its stride in elements along each enclosing loop, innermost first.

    The stride is None if it is not constant.
    """

    buffer: SSAValue
    is_store: bool
    steps: tuple[int | None, ...]
    computed: bool

    @property
    def is_register(self) -> bool:
        """Whether the buffer is in registers, so that the access is free."""
        owner = self.buffer.owner
        return isinstance(owner, loop.AllocOp) and owner.scope.data.in_registers


@target_estimate("cpu")
def estimate(before: loop.FuncOp, after: loop.FuncOp, facts: CpuFacts) -> Estimate | None:
    """Return the estimated time of a scheduled function; None if it has no blocks."""
    costs = {block.block_name.data: _cost(block, facts) for block in blocks_under(after)}
    if not costs:
        return None
    worst = max(costs, key=lambda name: costs[name][0])
    ns = sum(each for each, _ in costs.values())
    return Estimate(ns, limit_ns(before, facts), f'"{worst}": {costs[worst][1]}')


def limit_ns(function: loop.FuncOp, facts: CpuFacts) -> float:
    """Return the lower bound of a function's time in nanoseconds."""

    def operations(block: loop.BlockOp) -> float:
        pattern = match_block(block)
        # A multiply-add is one instruction.
        share = 2 if pattern is not None and pattern.is_contraction else 1
        return _operations(block) / share * facts.lanes() / facts.lanes(element_bits(block))

    return nanoseconds(limit_cycles(function, facts, operations), facts)


def _operations(block: loop.BlockOp) -> float:
    """Return the operations of one run of a body, without contiguous loads and stores."""
    moved = [op for op in block.body.block.ops if isinstance(op, loop.LoadOp | loop.StoreOp)]
    computed = sum(any(v not in block.iter_vars for v in op.indices) for op in moved)
    return body_cost(block) - len(moved) + computed * GATHER


def _cost(block: loop.BlockOp, facts: CpuFacts) -> tuple[float, str]:
    """Return the time of a block in nanoseconds, and its main cost."""
    loops = list(enclosing_loops(block))
    trips = [each.trip_count for each in loops]
    kinds = [each.loop_kind for each in loops]
    accesses = list(_accesses(block, loops))
    moved = [access for access in accesses if not access.is_register]
    vector = prod(n for n, kind in zip(trips, kinds, strict=True) if _is_vector(kind))
    issues = ceil(vector / facts.lanes(element_bits(block)))
    loads = sum(_issued(access, trips, kinds, issues) for access in moved)
    issued = max(body_cost(block) - len(accesses), 1) * issues + loads
    computing = facts.cycles(products=issued)
    waiting = _waiting(block, loops, accesses, issued, facts)
    tasks = prod(n for n, kind in zip(trips, kinds, strict=True) if kind is loop.LoopKind.PARALLEL)
    threads = min(facts.cores, tasks)
    reasons = {
        "no vectors": vector == 1,
        "lanes are moved one by one": loads > 4 * issues * max(len(moved), 1),
        "each term of its sum waits for the one before": waiting > computing,
        f"on {threads} of {facts.cores} cores": threads < facts.cores,
    }
    cycles = max(computing, waiting) * prod(trips) / vector / threads
    reason = ", ".join(r for r, holds in reasons.items() if holds) or "it computes too much"
    return nanoseconds(cycles, facts), reason


def _issued(
    access: _Stream, trips: Sequence[int], kinds: Sequence[loop.LoopKind], issues: int
) -> float:
    """Return the instructions of an access per vector, shared between unrolled copies."""
    cost, shared = 1.0, 1
    for step, trip, kind in zip(access.steps, trips, kinds, strict=True):
        if _is_vector(kind) and (access.computed or step is None or abs(step) > 1):
            cost *= trip
        elif _is_vector(kind) and step:
            cost *= issues
        elif kind is loop.LoopKind.UNROLLED and step == 0:
            shared *= trip
    return cost / shared


def _waiting(
    block: loop.BlockOp,
    loops: Sequence[loop.ForOp],
    accesses: Sequence[_Stream],
    issued: float,
    facts: CpuFacts,
) -> float:
    """Return the cycles between terms of a sum, divided by the number of independent sums."""
    if not block.is_reduction:
        return 0.0
    stores = [access for access in accesses if access.is_store]
    # A load that reads what has just been stored takes about as long as a multiply-add.
    latency = facts.cycles(chain=1 if all(a.is_register for a in stores) else 2)
    together = 1
    for position, each in enumerate(loops):
        if _is_vector(each.loop_kind) or each.trip_count == 1:
            continue
        if any(access.steps[position] != 0 for access in stores):
            together *= each.trip_count
            continue
        others = prod(outer.trip_count for outer in loops[position + 1 :])
        found = min(others, WINDOW / (each.trip_count * issued * together))
        return latency / (together * max(found, 1.0))
    return 0.0


def _is_vector(kind: loop.LoopKind) -> bool:
    return kind is loop.LoopKind.VECTORIZED


def _accesses(block: loop.BlockOp, loops: Sequence[loop.ForOp]) -> Iterator[_Stream]:
    """Yield the loads and stores of a body, with their strides along `loops`."""
    start = block_variables(block)
    # For a loop that is not unrolled it only matters whether it moves the element that a sum is
    # stored to.
    ends = [(each, place) for each in loops for place in _places(each)]
    points = {end: block_variables(block, *end) for end in ends if end[1]}
    for op in block.body.block.ops:
        if not isinstance(op, loop.LoadOp | loop.StoreOp):
            continue
        is_sum = block.is_reduction and isinstance(op, loop.StoreOp)
        first = address(op, start)
        steps: list[int | None] = []
        for each in loops:
            one, last = _places(each)
            if not last or not (is_sum or each.loop_kind in _WRITTEN_OUT):
                steps.append(0)
                continue
            step = address(op, points[each, one]) - first
            even = last == one or address(op, points[each, last]) - first == step * last
            steps.append(step if even else None)
        computed = any(value not in start for value in op.indices)
        yield _Stream(op.memref, isinstance(op, loop.StoreOp), tuple(steps), computed)


_WRITTEN_OUT = (loop.LoopKind.VECTORIZED, loop.LoopKind.UNROLLED)


def _places(each: loop.ForOp) -> tuple[int, int]:
    """Return the iterations to sample: the second, and for lanes also the last."""
    last = each.trip_count - 1
    one = min(1, last)
    return one, last if _is_vector(each.loop_kind) else one
