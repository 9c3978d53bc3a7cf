"""The pass `apply-schedule`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tcopt.dialects.loop import FuncOp
from tcopt.dialects.sched import SequenceOp
from tcopt.schedules.api.apply import apply_sequence
from tcopt.support.errors import ScheduleError


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

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = {f.sym_name.data: f for f in op.ops if isinstance(f, FuncOp)}
        for sequence in list(op.ops):
            if not isinstance(sequence, SequenceOp):
                continue
            name = sequence.function.string_value()
            if name not in functions:
                raise ScheduleError(f"there is no loop.func @{name} to schedule", op=sequence)
            apply_sequence(sequence, functions[name])
            sequence.detach()
            sequence.erase()
