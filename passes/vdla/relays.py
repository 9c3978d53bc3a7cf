"""Instructions that only relay tokens between the load and store units."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from tcopt.dialects.vdla import InstructionOp, KernelKind, KernelOp, LoadUopsOp, ProgramOp
from tcopt.passes.accelerator.token_plan import TokenPlan
from tcopt.support.errors import PassFailedError


class InsertRelay(RewritePattern):
    """Reload micro-ops in the compute unit before an instruction that a plan names.

        vdla.store acc 0, %y[0] : 1x4
        vdla.load inp 0, %y[0] : 1x16
    ->
        vdla.store acc 0, %y[0] : 1x4
        vdla.load_uops %k
        vdla.load inp 0, %y[0] : 1x16

    `%k` is the smallest kernel whose micro-ops are loaded at that point. If there is none, a kernel
    with a single micro-op is created, at an address after all others.
    """

    def __init__(self, program: ProgramOp, plan: TokenPlan):
        self.program = program
        instructions = program.instructions
        self.kernels = {
            instructions[number]: _smallest(_loaded(instructions[:number]))
            for number in plan.relays
        }

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: InstructionOp, rewriter: PatternRewriter) -> None:
        if op not in self.kernels:
            return
        kernel = self.kernels.pop(op) or self._new_kernel(op, rewriter)
        rewriter.insert(LoadUopsOp([kernel.result]))

    def _new_kernel(self, op: InstructionOp, rewriter: PatternRewriter) -> KernelOp:
        """Return a kernel for an instruction before which none is loaded."""
        target, kernels = self.program.target, self.program.kernels
        place = max((each.place + each.size for each in kernels), default=0)
        if target is None:
            raise PassFailedError("the program names no accelerator", op=self.program)
        if place >= target.entries["uop"]:
            # No kernel is loaded yet, so loading any one early is legal.
            return min(kernels, key=lambda each: each.size)
        kernel = KernelOp(KernelKind.GEMM, place, (), [(), (), ()], [(0, 0, 0)])
        first = self.program.body.block.first_op
        assert first is not None
        rewriter.insert(kernel, InsertPoint.before(first))
        return kernel


def _loaded(instructions: Iterable[InstructionOp]) -> list[KernelOp]:
    """Return the kernels whose micro-ops are loaded after some instructions."""
    there: list[KernelOp] = []
    for op in instructions:
        if isinstance(op, LoadUopsOp):
            loaded = op.loaded
            there = [each for each in there if not any(_overlap(each, new) for new in loaded)]
            there += loaded
    return there


def _overlap(first: KernelOp, second: KernelOp) -> bool:
    begin = max(first.place, second.place)
    return begin < min(first.place + first.size, second.place + second.size)


def _smallest(kernels: list[KernelOp]) -> KernelOp | None:
    return min(kernels, key=lambda each: each.size, default=None)
