"""How long scheduled launches take on a GPU, against what its cores and its memory allow.

Both are rough, and mean something where they are far apart. The limit is that of a roofline: a
launch, and operations on all cores, or each byte moved once. The estimate looks at the loops as
they are: rounds of blocks, threads of a block, what neighbouring threads load, and how long a
thread that has much to do alone waits for memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod

from xdsl.ir import SSAValue

from tcopt.dialects import loop
from tcopt.dialects.intrinsics import all_intrinsics
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.dialects.loop.structure import enclosing_loops, is_thread
from tcopt.schedules.analysis.dots import dot_of
from tcopt.schedules.analysis.patterns import (
    body_cost,
    buffer_bits,
    element_bits,
    match_block,
)
from tcopt.schedules.rules.gpu.facts import GpuFacts
from tcopt.schedules.rules.gpu.reduction_plan import BYTE, LAUNCH
from tcopt.schedules.rules.gpu.tensor_core_roles import matrix_products, mmas_for
from tcopt.schedules.rules.rule import Declined, Estimate, target_estimate
from tcopt.schedules.state.state import blocks_under, buffers_read, buffers_written

CYCLES_PER_NS = 1.4
"""Clocks are 1 to 2 GHz."""

LATENCY = 400.0
"""Cycles from a load of memory to its number, roughly."""

ON_THEIR_WAY = 4
"""Loads that a thread waits for at a time where one does not need another."""

WAIT = 4.0
"""Cycles from an instruction to one that needs its result."""

SECTOR = 32
"""Bytes of memory that are moved for a single number."""

LINE = 128
"""Bytes that a core loads from what is near in a cycle."""

DOT = 4.0
"""Products of bytes in the time of one multiply-add."""


@dataclass
class _Launch:
    """What one launch costs.

    Attributes:
        grid, threads: blocks, and threads of each.
        issued: operations of all threads of a block.
        loaded: bytes that a core loads for a block, as its threads ask for them.
        apart: those that come along because neighbouring threads ask for what lies apart.
        scattered: those loaded whose neighbours no thread of the block asks for.
        chain: cycles that one thread takes, however many others there are.
    """

    name: str
    grid: int = 1
    threads: int = 1
    issued: float = 0.0
    loaded: float = 0.0
    apart: float = 0.0
    scattered: float = 0.0
    chain: float = 0.0

    def cycles(self, facts: GpuFacts) -> tuple[float, str]:
        """How long it takes, and what takes longest."""
        rounds = facts.rounds(self.grid)
        resident = max(min(facts.core_threads // self.threads, rounds), 1)
        width = min(facts.multiply_adds, self.threads * resident)
        far = self.grid * self.scattered / facts.memory_rate
        is_apart = self.apart > self.loaded / 2
        loads = "neighbouring threads load what lies apart" if is_apart else "it loads too much"
        costs = {
            "its threads wait for memory and for one another": self.chain * ceil(rounds / resident),
            loads: max(far, rounds * self.loaded / LINE),
            "it computes too much": rounds * self.issued / width,
        }
        reason = max(costs, key=lambda each: costs[each])
        if self.grid * self.threads < facts.cores * facts.warp:
            reason = f"{self.grid} blocks of {self.threads} threads on {facts.cores} cores"
        return max(costs.values()), reason


@target_estimate("gpu")
def estimate(before: loop.FuncOp, after: loop.FuncOp, facts: GpuFacts) -> Estimate | None:
    """The time of a function as scheduled; None without blocks, whose loops tell everything."""
    nests = [op for op in after.body.block.ops if isinstance(op, loop.ForOp | loop.BlockOp)]
    launches = [each for each in (_launch(nest, facts) for nest in nests) if each is not None]
    if not launches:
        return None
    costs = [each.cycles(facts) for each in launches]
    worst = max(range(len(costs)), key=lambda number: costs[number][0])
    cycles = sum(cost + LAUNCH for cost, _ in costs)
    reason = f'"{launches[worst].name}": {costs[worst][1]}'
    if costs[worst][0] < LAUNCH and len(launches) > 1:
        reason = f"{len(launches)} launches"
    # All that is loaded at one time comes from memory.
    limit = limit_cycles(before, facts)
    return Estimate(max(cycles, limit) / CYCLES_PER_NS, limit / CYCLES_PER_NS, reason)


def limit_cycles(function: loop.FuncOp, facts: GpuFacts) -> float:
    """Cycles of a function at best: a launch, and its operations, or its arguments' bytes."""
    compute, moved = 0.0, dict[SSAValue, int]()
    for block in blocks_under(function):
        count = prod(block.domain)
        compute += count * _operations(block) / _rate(block, facts)
        for buffer in {*buffers_read(block), *buffers_written(block)}:
            if buffer in function.body.block.args:
                used = min(count * element_bits(block), buffer_bits(buffer)) // BYTE
                moved[buffer] = max(moved.get(buffer, 0), used)
    compute /= facts.multiply_adds * facts.cores
    return LAUNCH + max(compute, sum(moved.values()) / facts.memory_rate)


def _rate(block: loop.BlockOp, facts: GpuFacts) -> float:
    """How many times as fast as a multiply-add the target does a block's operations."""
    pattern = match_block(block)
    if pattern is None or not pattern.is_contraction or len(pattern.terms) != 2:
        return 1.0
    if dot_of(pattern, facts.capabilities) is not None:
        return DOT
    known = matrix_products(facts)
    return (
        facts.matrix_rate if known and not isinstance(mmas_for(pattern, known), Declined) else 1.0
    )


def _operations(block: loop.BlockOp) -> float:
    """What one run of a body computes; products that are added up are one with the sum."""
    pattern = match_block(block)
    if pattern is not None and pattern.is_contraction:
        return 1.0
    moved = sum(isinstance(op, loop.LoadOp | loop.StoreOp) for op in block.body.block.ops)
    return max(body_cost(block) - moved, 0)


def _launch(nest: loop.ForOp | loop.BlockOp, facts: GpuFacts) -> _Launch | None:
    """The costs of all blocks of an outermost nest."""
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
        # The lanes of a warp share a product of matrices.
        own *= facts.warp if products else 1
        found.grid, found.threads = max(found.grid, grid), max(found.threads, own)
        steps = prod(each.trip_count for each in rest)
        serial = prod(each.trip_count for each in rest if each.loop_kind not in _WRITTEN_OUT)
        accesses = list(_accesses(block, loops))
        computed = products or _operations(block) / _rate(block, facts)
        issued = steps * (computed + sum(each.issued for each in accesses))
        found.issued += own * issued
        found.loaded += own * steps * sum(each.moved for each in accesses)
        found.apart += own * steps * sum(each.apart for each in accesses)
        found.scattered += own * steps * sum(each.moved for each in accesses if each.is_scattered)
        waits = LATENCY / ON_THEIR_WAY if any(each.is_far for each in accesses) else WAIT
        # Threads without others beside them do each of their instructions after the last one.
        found.chain += max(serial * waits, issued * (WAIT if own < facts.warp else 1.0))
    return found


def _loops(block: loop.BlockOp) -> Iterator[loop.ForOp]:
    """The loops that repeat a block, the innermost first: not those whose threads share what
    loops inside have dealt out to the same threads."""
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


def _products(block: loop.BlockOp, facts: GpuFacts) -> float:
    """Multiply-adds of a lane in the time of a product of matrices by a warp; 0 without one."""
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
    """A load or store of one run of a body.

    Attributes:
        issued: instructions of a thread.
        moved: bytes moved for it.
        apart: those of them that it does not use.
        is_far: whether it goes to memory.
        is_scattered: whether no thread of the block asks for what lies beside it.
    """

    issued: float
    moved: float
    apart: float
    is_far: bool
    is_scattered: bool


def _accesses(block: loop.BlockOp, loops: list[loop.ForOp]) -> Iterator[_Issued]:
    """What a body loads and stores, beside registers."""
    start = _variables(block, None)
    own = [each for each in loops if each.axis is None or is_thread(each)]
    moving = [(each, _variables(block, each)) for each in own if each.trip_count > 1]
    neighbours = _neighbours([each for each, _ in moving])
    for op in block.body.block.ops:
        if not isinstance(op, loop.LoadOp | loop.StoreOp) or _is_near(op.memref, _REGISTERS):
            continue
        first = _address(op, start)
        steps = {each: abs(_address(op, place) - first) for each, place in moving}
        shared, lanes = 1, 1
        for each, step in steps.items():
            if each.loop_kind in _WRITTEN_OUT and step == 0:
                shared *= each.trip_count
            elif each.loop_kind is loop.LoopKind.VECTORIZED and step == 1:
                lanes *= each.trip_count
        size = buffer_bits(op.memref) / BYTE / max(prod(buffer_shape(op.memref)), 1)
        moved, is_far = size, not _is_near(op.memref, _SHARED)
        if is_far and neighbours is not None:
            apart = min(steps[neighbours] * size, max(float(SECTOR), lanes * size))
            moved = max(apart / lanes, size)
        is_scattered = moved > size and 1 not in steps.values()
        yield _Issued(
            1 / shared / lanes, moved / shared, (moved - size) / shared, is_far, is_scattered
        )


def _neighbours(loops: list[loop.ForOp]) -> loop.ForOp | None:
    """The loop whose iterations are threads side by side; None where there is one thread."""
    for axis in loop.THREAD_AXES:
        for each in loops:
            if each.axis is not None and each.axis.data is axis:
                return each
    return None


_WRITTEN_OUT = (loop.LoopKind.VECTORIZED, loop.LoopKind.UNROLLED, loop.LoopKind.VIRTUAL)
"""Loops whose iterations wait for nothing of one another."""

_REGISTERS = (loop.Scope.REGISTER,)
_SHARED = (loop.Scope.SHARED, loop.Scope.LOCAL)


def _is_near(buffer: SSAValue, scopes: tuple[loop.Scope, ...]) -> bool:
    owner = buffer.owner
    return isinstance(owner, loop.AllocOp) and owner.scope.data in scopes


def _variables(block: loop.BlockOp, moved: loop.ForOp | None) -> dict[SSAValue, int]:
    """A block's variables where all loops are at their start, but one."""
    value = None if moved is None or moved.trip_count == 1 else moved.induction_variable
    operands = [int(operand is value) for operand in block.operands_]
    bindings = block.bindings.data.results
    return {v: e.eval(operands, []) for v, e in zip(block.iter_vars, bindings, strict=True)}


def _address(op: loop.LoadOp | loop.StoreOp, variables: dict[SSAValue, int]) -> int:
    indices = [variables.get(value, 0) for value in op.indices]
    shape, total = buffer_shape(op.memref), 0
    for extent, expr in zip(shape, op.map.data.results, strict=True):
        total = total * extent + expr.eval(indices, [])
    return total
