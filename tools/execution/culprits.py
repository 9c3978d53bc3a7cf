"""Localisation of a fault: the code generator, or a schedule step.

Wrong machine code may come from a correct kernel. The kernel's IR is therefore run by an
interpreter that shares no code with the code generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from tcopt.dialects.gpu_kernels import KERNEL
from tcopt.dialects.loop import FuncOp
from tcopt.dialects.sched import SchedOp
from tcopt.interpreters.kernel import run_kernel
from tcopt.interpreters.kernel_serial import Order, in_sequence, run_serial, strided
from tcopt.schedules.api.recorder import steps_observed
from tcopt.support.errors import MismatchError
from tcopt.tools.execution.executors import Array
from tcopt.tools.execution.stage_runs import Call, Output, private_copies, written_outputs
from tcopt.tools.execution.work_estimates import thread_count

INTERPRETED_WORK = 1_000_000
"""Maximum number of executed ops of a kernel that is interpreted to find code generator faults."""

THREADS_AT_ONCE = 100
"""Number of threads of a launch that are interpreted in the time of one."""

ORDERS: tuple[Order, ...] = (strided, in_sequence)
"""Orders of parallel iterations: the one of machine code's first run, and sequential."""

APPLIES_STEPS = "applies_steps"
"""Class attribute that is true for passes that schedule functions; the wrong step is then named."""


class EmitterFault(MismatchError):
    """The code of a function is wrong, although its kernel-level IR is correct.

    Attributes:
        emitter: the name of the code generator.
    """

    def __init__(self, message: str, *, where: str | None, emitter: str):
        super().__init__(message, where=where)
        self.emitter = emitter


@dataclass(frozen=True)
class FailedCall:
    """A call of a function whose results changed.

    Attributes:
        function: its name.
        agrees: whether another body of the function computes the earlier results for the same
            inputs.
    """

    function: str
    agrees: Callable[[FuncOp], bool]


def interpret(
    function: func.FuncOp, arrays: Sequence[Array], written: Sequence[int], order: Order
) -> Call:
    """Run a kernel-level function without the code generator.

    The threads of a launch run side by side, whatever the order.
    """
    buffers = private_copies(arrays)
    returned: list[Array] = []
    if KERNEL in function.attributes:
        run_kernel(function, buffers)
    else:
        returned = run_serial(function, buffers, order)
    outputs, positions = written_outputs(function, arrays, buffers, written)
    results = tuple(Output("the result", np.asarray(each), None, None) for each in returned)
    return Call(outputs + results, positions)


def is_interpretable(function: Operation, work: int) -> bool:
    """Whether a function is small enough to be interpreted."""
    return work // min(thread_count(function), THREADS_AT_ONCE) <= INTERPRETED_WORK


def first_wrong_step(
    ctx: Context, before: ModuleOp, module_pass: ModulePass, failed: FailedCall
) -> SchedOp | None:
    """Return the schedule step that breaks a function; None if no step does.

    Args:
        before: the module before the pass, which is modified.
    """
    steps: dict[FuncOp, list[tuple[SchedOp, FuncOp]]] = {}

    def observe(step: SchedOp, function: FuncOp) -> None:
        if function.sym_name.data == failed.function:
            steps.setdefault(function, []).append((step, function.clone()))

    with steps_observed(observe):
        module_pass.apply(ctx, before)
    # Rules that declined used their own copies; the last copy is the accepted schedule's.
    taken = list(steps.values())[-1] if steps else []
    if not taken or failed.agrees(taken[-1][1]):
        return None
    right, wrong = -1, len(taken) - 1
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if failed.agrees(taken[middle][1]):
            right = middle
        else:
            wrong = middle
    return taken[wrong][0]
