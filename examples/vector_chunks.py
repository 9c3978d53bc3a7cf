"""Schedule rule with a search space: the number of vectors, and the work of a thread at a time.

    tcopt-tune model.onnx --load examples/vector_chunks.py

Run directly, it prints the size of the space for a function.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.compiler.options import CompileOptions
from tcopt.schedules import Schedule
from tcopt.schedules.analysis.patterns import BlockPattern, element_bits, match_block
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.operands import operands_of
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.spaces.space import (
    Choice,
    Column,
    Knob,
    LoopLevel,
    NestKind,
    Operand,
    Point,
    Space,
)
from tcopt.support.arithmetic.columns import ceil_div


class VectorChunksSpace(Space):
    """Number of adjacent vectors in an iteration, and iterations that a thread runs at a time."""

    def __init__(self, pattern: BlockPattern, lanes: int):
        self.pattern, self.lanes = pattern, lanes
        *self.outer, self.width = pattern.extents
        super().__init__([Knob("vectors", (1, 2, 3, 4, 6, 8)), Knob("rounds", (1, 4, 16, 64))])

    def valid(self, k: Point) -> Column:
        return k.vectors * k.rounds * self.lanes <= self.width

    def estimate(self, k: Point) -> Column:
        """Return the number of computed vectors, plus overheads of iterations and tasks."""
        rounds = ceil_div(self.width, k.vectors * self.lanes)
        return rounds * (k.vectors + 1) + 4 * ceil_div(rounds, k.rounds)

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        last = len(self.outer)
        rounds = ceil_div(self.width, k.vectors * self.lanes)
        return [
            *(LoopLevel(v, extent, NestKind.PARALLEL) for v, extent in enumerate(self.outer)),
            LoopLevel(last, ceil_div(rounds, k.rounds), NestKind.PARALLEL),
            LoopLevel(last, k.rounds),
            LoopLevel(last, k.vectors, NestKind.UNROLLED),
            LoopLevel(last, self.lanes, NestKind.VECTOR),
        ]

    def operands(self) -> Sequence[Operand]:
        return operands_of(self.pattern)


@schedule_rule(target="cpu", priority=10)
class VectorChunks:
    """Schedule rule for elementwise functions with a single block."""

    name = "example-vector-chunks"

    def space(self, sch: Schedule, facts: CpuFacts) -> VectorChunksSpace | Declined:
        if len(sch.blocks()) != 1:
            return Declined(f"{len(sch.blocks())} blocks instead of one")
        op = sch.block_op(sch.blocks()[0])
        pattern = match_block(op)
        if pattern is None or pattern.reduce or not pattern.spatial:
            return Declined("it is not elementwise")
        lanes = facts.lanes(element_bits(op))
        if pattern.extents[-1] < lanes or not pattern.store.is_unit(pattern.spatial[-1]):
            return Declined("the last axis is not contiguous or is shorter than a vector")
        return VectorChunksSpace(pattern, lanes)

    def apply(
        self, sch: Schedule, facts: CpuFacts, space: VectorChunksSpace, choice: Choice
    ) -> Declined | None:
        *outer, last = sch.get_loops(sch.blocks()[0])
        sizes = [None, choice["rounds"], choice["vectors"], space.lanes]
        chunk, _, vector, lane = sch.split(last, factors=sizes)
        sch.vectorize(lane)
        sch.unroll(vector)
        sch.parallel(sch.fuse(*outer, chunk) if outer else chunk)
        return None


def main() -> None:
    from tcopt.frontends.onnx.building.network import Network
    from tcopt.tuner.arms import arms_of
    from tcopt.tuner.tasks import tasks_of

    net = Network("rows")
    model = net.model(**{net.add("Sigmoid", net.input("x", [128, 200])): [128, 200]})
    (task,) = tasks_of(model, CompileOptions(target="cpu:haswell"))
    arm = next(arm for arm in arms_of(task) if arm.rule == VectorChunks.name)
    print(f"{arm.rule}: {arm.space.size} choices, by default {arm.space.words(arm.default)}")


if __name__ == "__main__":
    main()
