"""Execution of one accelerator program on the simulator."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.backends.accelerator.code import code_for
from tcopt.dialects.accelerator import BarrierOp, ProgramOp
from tcopt.dialects.target.accelerator import Interlocks
from tcopt.support.errors import MismatchError
from tcopt.tools.execution.stage_runs import Call, place_of, private_copies, written_outputs

Array = NDArray[Any]

_ORDERS = 3


def run_program(program: ProgramOp, arrays: Sequence[Array], written: Sequence[int]) -> Call:
    """Run a program in its own order, and in other orders if its units synchronise.

    Raises:
        VerificationError: an instruction reads uninitialised or out-of-range entries.
        MismatchError: a result depends on the order of the units.
    """
    started = time.perf_counter()
    code = code_for(program)
    in_order = _signed_copies(arrays)
    code.run(in_order)
    for seed in range(_ORDERS if _synchronises(program) else 0):
        again = _signed_copies(arrays)
        code.run(again, seed)
        for number in written:
            if not np.array_equal(again[number], in_order[number]):
                name = program.body.block.args[number].name_hint or "a buffer"
                raise MismatchError(
                    f"{name} of @{program.sym_name.data} depends on the order in which the units "
                    "run",
                    where=place_of(program),
                )
    seconds = time.perf_counter() - started
    after = [a.view(old.dtype) for a, old in zip(in_order, arrays, strict=True)]
    return Call(*written_outputs(program, arrays, after, written), seconds=seconds)


def _synchronises(program: ProgramOp) -> bool:
    """Whether units wait for each other, so that other orders are legal."""
    if program.facts is not None and isinstance(program.facts.order, Interlocks):
        return True
    return any(isinstance(step, BarrierOp) or step.waits_for for step in program.steps)


def _signed_copies(arrays: Sequence[Array]) -> list[Array]:
    """Return copies viewed as signed integers, the accelerator's interpretation of bytes."""
    return [
        each.view(f"i{each.itemsize}") if each.dtype.kind == "u" else each
        for each in private_copies(arrays)
    ]
