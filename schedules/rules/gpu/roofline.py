"""Estimate the time of scheduled launches on a GPU, and its lower bound by a roofline model.

Both are rough, and only meaningful where they differ by a large factor. The lower bound is that of
a single launch. The estimate depends on the scheduled loops: rounds of blocks, threads of a block,
coalescing of loads, and the latency that a thread with much serial work exposes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from tcopt.dialects import loop
from tcopt.dialects.intrinsics import all_intrinsics
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.dialects.loop.structure import enclosing_loops, is_thread
from tcopt.schedules.analysis.dots import dot_of
from tcopt.schedules.analysis.patterns import (
    body_cost,
    buffer_bits,
    match_block,
)
from tcopt.schedules.rules.gpu.tensor_core_roles import matrix_products, mmas_for
from tcopt.schedules.rules.operands import BYTE
from tcopt.schedules.rules.roofline import address, block_variables, limit_cycles
from tcopt.schedules.rules.rule import Declined, Estimate, target_estimate
from tcopt.support.machines.machine import nanoseconds
from tcopt.support.machines.thread_blocks import LaunchCycles, LaunchWork, ThreadBlocks


@dataclass
class _Launch:
    """Costs of one launch.

    Attributes:
        grid, threads: number of blocks, and of threads per block.
        issued: operations of all threads of a block.
        loaded: bytes that a core loads for a block, as requested by its threads.
        apart: bytes of these that are loaded needlessly, because accesses are not coalesced.
        scattered: bytes loaded whose adjacent elements no thread of the block uses.
        chain: cycles of one thread, independent of the number of threads.
    """

    name: str
    grid: int = 1
    threads: int = 1
    issued: float = 0.0
    loaded: float = 0.0
    apart: float = 0.0
    scattered: float = 0.0
    chain: float = 0.0

    def cycles(self, facts: ThreadBlocks) -> tuple[float, str]:
        """Return the cycles of the launch, and its main cost."""
        work = LaunchWork(
            blocks=self.grid,
            threads=self.threads,
            operations=self.issued / self.threads,
            near=self.loaded,
            moved=self.grid * self.scattered,
            chain=self.chain,
        )
        cycles = facts.launch(work)
        is_apart = self.apart > self.loaded / 2
        reasons = LaunchCycles(
            "it computes too much",
            "neighbouring threads load what lies apart" if is_apart else "it loads too much",
            "its threads wait for memory and for one another",
        )
        reason = max(zip(cycles, reasons, strict=True))[1]
        if self.grid * self.threads < facts.cores * facts.warp:
            reason = f"{self.grid} blocks of {self.threads} threads on {facts.cores} cores"
        return cycles.total, reason


@target_estimate("gpu")
def estimate(before: loop.FuncOp, after: loop.FuncOp, facts: ThreadBlocks) -> Estimate | None:
    """Return the estimated time of a scheduled function; None if it has no launches."""
    nests = [op for op in after.body.block.ops if isinstance(op, loop.ForOp | loop.BlockOp)]
    launches = [each for each in (_launch(nest, facts) for nest in nests) if each is not None]
    if not launches:
        return None
    costs = [each.cycles(facts) for each in launches]
    worst = max(range(len(costs)), key=lambda number: costs[number][0])
    cycles = sum(cost + facts.start for cost, _ in costs)
    reason = f'"{launches[worst].name}": {costs[worst][1]}'
    if costs[worst][0] < facts.start and len(launches) > 1:
        reason = f"{len(launches)} launches"
    # Every access reads or writes memory at least once.
    limit = lower_bound(before, facts)
    ns, least = nanoseconds(max(cycles, limit), facts), nanoseconds(limit, facts)
    return Estimate(ns, least, reason)


def lower_bound(function: loop.FuncOp, facts: ThreadBlocks) -> float:
    """Return the cycles of a launch that only computes, or only moves the arguments."""

    def operations(block: loop.BlockOp) -> float:
        return _operations(block) / _rate(block, facts)

    return limit_cycles(function, facts, operations, starts=1)


def _rate(block: loop.BlockOp, facts: ThreadBlocks) -> float:
    """Return the rate of a block's operations relative to multiply-adds."""
    pattern = match_block(block)
    if pattern is None or not pattern.is_contraction or len(pattern.terms) != 2:
        return 1.0
    if dot_of(pattern, facts.capabilities) is not None:
        return facts.dot_rate
    known = matrix_products(facts)
    return (
        facts.matrix_rate if known and not isinstance(mmas_for(pattern, known), Declined) else 1.0
    )


def _operations(block: loop.BlockOp) -> float:
    """Return the operations of one run of a body; a multiply-add counts once."""
    pattern = match_block(block)
    if pattern is not None and pattern.is_contraction:
        return 1.0
    moved = sum(isinstance(op, loop.LoadOp | loop.StoreOp) for op in block.body.block.ops)
    return max(body_cost(block) - moved, 0)


def _launch(nest: loop.ForOp | loop.BlockOp, facts: ThreadBlocks) -> _Launch | None:
    """Return the total costs of all blocks of an outermost nest; None if it has no blocks."""
    blocks = [op for op in nest.walk() if isinstance(op, loop.BlockOp)]
    if not blocks:
        return None
    found = _Launch(blocks[-1].block_name.data)
    for block in blocks:
        loops = list(_loops(block))
        grid = prod(each.trip_count for each in loops if each.axis and not is_thread(each))
        own = prod(each.trip_count for each in loops if is_thread(each))
        rest = [each for each in loops if each.axis is None]
        products = _products(block, facts)
        # The lanes of a warp share a matrix product.
        own *= facts.warp if products else 1
        found.grid, found.threads = max(found.grid, grid), max(found.threads, own)
        steps = prod(each.trip_count for each in rest)
        serial = prod(each.trip_count for each in rest if each.loop_kind not in _WRITTEN_OUT)
        accesses = list(_accesses(block, loops, facts.sector))
        computed = products or _operations(block) / _rate(block, facts)
        issued = steps * (computed + sum(each.issued for each in accesses))
        found.issued += own * issued
        found.loaded += own * steps * sum(each.moved for each in accesses)
        found.apart += own * steps * sum(each.apart for each in accesses)
        found.scattered += own * steps * sum(each.moved for each in accesses if each.is_scattered)
        is_far = any(each.is_far for each in accesses)
        waits = facts.latency / facts.in_flight if is_far else facts.chain
        # With less than a warp, latency of each instruction is exposed.
        found.chain += max(serial * waits, issued * (facts.chain if own < facts.warp else 1.0))
    return found


def _loops(block: loop.BlockOp) -> Iterator[loop.ForOp]:
    """Yield the loops that repeat a block, innermost first.

    Loops over threads are skipped if a loop inside distributes work over the same threads.
    """
    axes = set[loop.ThreadAxis]()
    for each in enclosing_loops(block):
        is_used = any(operand is each.induction_variable for operand in block.operands_)
        if each.loop_kind is loop.LoopKind.VIRTUAL and not is_used:
            continue
        if each.axis is not None:
            if each.axis.data in axes:
                continue
            axes.add(each.axis.data)
        yield each


def _products(block: loop.BlockOp, facts: ThreadBlocks) -> float:
    """Return a lane's multiply-adds in the time of a warp's matrix product; 0 if there is none."""
    for op in block.body.block.ops:
        if isinstance(op, loop.IntrinOp):
            operands = all_intrinsics()[op.intrin.data].operands
            if len(operands) == _FACTORS + 1 and all(len(each.shape) > 1 for each in operands):
                (rows, columns), (_, depth) = operands[0].shape, operands[1].shape
                return rows * columns * depth / facts.warp / facts.matrix_rate
    return 0.0


_FACTORS = 2


@dataclass(frozen=True)
class _Issued:
    """A load or store in one run of a body.

    Attributes:
        issued: instructions of a thread.
        moved: bytes moved for it.
        apart: bytes of these that it does not use.
        is_far: whether it accesses memory.
        is_scattered: whether no thread of the block uses the adjacent elements.
    """

    issued: float
    moved: float
    apart: float
    is_far: bool
    is_scattered: bool


def _accesses(block: loop.BlockOp, loops: list[loop.ForOp], sector: int) -> Iterator[_Issued]:
    """Yield the loads and stores of a body, except accesses to registers."""
    start = block_variables(block)
    own = [each for each in loops if each.axis is None or is_thread(each)]
    moving = [(each, block_variables(block, each)) for each in own if each.trip_count > 1]
    neighbours = _neighbours([each for each, _ in moving])
    for op in block.body.block.ops:
        if not isinstance(op, loop.LoadOp | loop.StoreOp) or _is_near(op.memref, _REGISTERS):
            continue
        first = address(op, start)
        steps = {each: abs(address(op, place) - first) for each, place in moving}
        shared, lanes = 1, 1
        for each, step in steps.items():
            if each.loop_kind in _WRITTEN_OUT and step == 0:
                shared *= each.trip_count
            elif each.loop_kind is loop.LoopKind.VECTORIZED and step == 1:
                lanes *= each.trip_count
        size = buffer_bits(op.memref) / BYTE / max(prod(buffer_shape(op.memref)), 1)
        moved, is_far = size, not _is_near(op.memref, _SHARED)
        if is_far and neighbours is not None:
            apart = min(steps[neighbours] * size, max(float(sector), lanes * size))
            moved = max(apart / lanes, size)
        is_scattered = moved > size and 1 not in steps.values()
        yield _Issued(
            1 / shared / lanes, moved / shared, (moved - size) / shared, is_far, is_scattered
        )


def _neighbours(loops: list[loop.ForOp]) -> loop.ForOp | None:
    """Return the loop over adjacent threads; None if there is a single thread."""
    for axis in loop.THREAD_AXES:
        for each in loops:
            if each.axis is not None and each.axis.data is axis:
                return each
    return None


_WRITTEN_OUT = (loop.LoopKind.VECTORIZED, loop.LoopKind.UNROLLED, loop.LoopKind.VIRTUAL)
"""Kinds of loops whose iterations are independent in the instruction stream."""

_REGISTERS = (loop.Scope.REGISTER,)
_SHARED = (loop.Scope.SHARED, loop.Scope.LOCAL)


def _is_near(buffer: SSAValue, scopes: tuple[loop.Scope, ...]) -> bool:
    owner = buffer.owner
    return isinstance(owner, loop.AllocOp) and owner.scope.data in scopes
