"""Running a module at the loop level: interpreted while small, else plainly compiled.

The interpreter takes a microsecond or so for each step, too slow for a whole network. Large
modules are lowered as plainly as can be, with no schedule or vectorisation of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tcopt.dialects import loop
from tcopt.interpreters.loop import run_module as interpret
from tcopt.passes.kernel.lower_loop_to_kernel import LowerLoopToKernelPass
from tcopt.passes.loop.lower_blocks import LowerBlocksPass
from tcopt.tools.kernel_executor import run_function, run_host

Array = NDArray[Any]

_MAX_INTERPRETED_STEPS = 1_000_000


def run_module(module: ModuleOp, inputs: Sequence[Array], /) -> list[Array]:
    """Run @main, or the only function, on buffers for its inputs and results."""
    if sum(_steps(op) for op in module.ops) <= _MAX_INTERPRETED_STEPS:
        return interpret(module, inputs)
    lowered = module.clone()
    ctx = Context()
    LowerBlocksPass().apply(ctx, lowered)
    # Products and sums stay apart, as the interpreter has them.
    LowerLoopToKernelPass(fma=False).apply(ctx, lowered)
    functions = [op for op in lowered.ops if isinstance(op, func.FuncOp)]
    main = next((op for op in functions if op.sym_name.data == "main"), None)
    if main is None:
        return run_function(lowered, functions[0].sym_name.data, inputs)
    run_host(lowered, main, inputs)
    return []


def _steps(op: Operation) -> int:
    """How many ops run below `op`, guards and thread kinds aside."""
    count = 1 + sum(_steps(inner) for region in op.regions for inner in region.ops)
    return count * op.trip_count if isinstance(op, loop.ForOp) else count
