"""The pass `apply-schedule`: apply each sequence to its function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.loop import FuncOp
from tcopt.dialects.sched import SequenceOp
from tcopt.schedules.api.apply import apply_sequence
from tcopt.support.errors import ScheduleError
from tcopt.support.ir.rewriting import rewrite


@dataclass(frozen=True)
class ApplySequence(RewritePattern):
    """Apply a sequence to its function, and erase the sequence.

        loop.func @f(...) { loop.for %i = 0 to 64 {...} }
        sched.sequence @f_schedule for @f { ... sched.split %i by [?, 16] ... }
        ->
        loop.func @f(...) { loop.for %io = 0 to 4 { loop.for %ii = 0 to 16 {...} } }

    Attributes:
        functions: the functions of the module, by name.
    """

    functions: Mapping[str, FuncOp]

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SequenceOp, rewriter: PatternRewriter) -> None:
        name = op.function.string_value()
        if name not in self.functions:
            raise ScheduleError(f"there is no loop.func @{name} to schedule", op=op)
        apply_sequence(op, self.functions[name])
        rewriter.erase(op)


@dataclass(frozen=True)
class ApplySchedulePass(ModulePass):
    """Schedules each function by its sequence, and erases the sequence.

        loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
          loop.for %i = 0 to 64 {
            loop.block "copy" (%vi: spatial 64 = %i) {...}
          }
        }
        sched.sequence @f_schedule for @f {
          %copy = sched.get_block "copy"
          %i = sched.get_loops %copy
          %io, %ii = sched.split %i by [?, 16]
          sched.vectorize %ii
        }
    ->
        loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
          loop.for %io = 0 to 4 {
            loop.for %ii = 0 to 16 vectorized {
              loop.block "copy" (%vi: spatial 64 = %io * 16 + %ii) {...}
            }
          }
        }
    """

    name = "apply-schedule"
    applies_steps: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if any(isinstance(each, SequenceOp) for each in op.ops):
            functions = {f.sym_name.data: f for f in op.ops if isinstance(f, FuncOp)}
            rewrite(op, [ApplySequence(functions)], once=True)
