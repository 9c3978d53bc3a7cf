"""Narrow a fault down: to the code generator, or to a step of a schedule.

Machine code that is wrong may come from a right kernel. The kernel's text is then run by an
interpreter that shares nothing with the code generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tcopt.dialects.loop import FuncOp
from tcopt.dialects.sched import SchedOp
from tcopt.interpreters.kernel_serial import Order, in_sequence, run_serial, strided
from tcopt.schedules.api.recorder import steps_observed
from tcopt.support.errors import MismatchError
from tcopt.tools.execution.executors import Array
from tcopt.tools.execution.stage_runs import Call, Output, private_copies, written_outputs

INTERPRETED_WORK = 1_000_000
"""Largest number of ops of a kernel that is interpreted to find a fault of the code generator."""

ORDERS: tuple[Order, ...] = (strided, in_sequence)
"""Orders of parallel iterations: that of the first run of machine code, and the plain one."""

APPLIES_STEPS = "applies_steps"
"""True class attribute of a pass that schedules functions; a wrong step is then named."""


class EmitterFault(MismatchError):
    """The machine code of a function is wrong, although its kernel text is right."""


@dataclass(frozen=True)
class FailedCall:
    """A call of a function that did not give what it gave before.

    Attributes:
        function: its name.
        agrees: whether another body for the function gives what it gave before, on the same inputs.
    """

    function: str
    agrees: Callable[[FuncOp], bool]


def interpret(
    function: func.FuncOp, arrays: Sequence[Array], written: Sequence[int], order: Order
) -> Call:
    """Run a function of the kernel level without the code generator."""
    buffers = private_copies(arrays)
    returned = run_serial(function, buffers, order)
    outputs, positions = written_outputs(function, arrays, buffers, written)
    results = tuple(Output("the result", np.asarray(each), None, None) for each in returned)
    return Call(outputs + results, positions)


def first_wrong_step(
    ctx: Context, before: ModuleOp, module_pass: ModulePass, failed: FailedCall
) -> SchedOp | None:
    """The schedule step that makes a function wrong; None if that is not a step's fault.

    Args:
        before: the module before the pass, which is changed.
    """
    steps: dict[FuncOp, list[tuple[SchedOp, FuncOp]]] = {}

    def observe(step: SchedOp, function: FuncOp) -> None:
        if function.sym_name.data == failed.function:
            steps.setdefault(function, []).append((step, function.clone()))

    with steps_observed(observe):
        module_pass.apply(ctx, before)
    # Rules that declined have worked on copies of their own; the last one was accepted.
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
