"""Execution of one accelerator program on the simulator."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.backends.accelerator import execution
from tcopt.backends.accelerator.check import facts_for
from tcopt.backends.accelerator.simulator import orders
from tcopt.backends.vdla.simulator.function import Plans, run_stream
from tcopt.backends.vdla.source import machine_of, stream_for
from tcopt.dialects import accelerator
from tcopt.dialects.accelerator.reading import read_program
from tcopt.dialects.vdla import ProgramOp, StoreOp
from tcopt.support.errors import MismatchError
from tcopt.tools.execution.stage_runs import Call, place_of, private_copies, written_outputs

Array = NDArray[Any]

_ORDERS = 3


AcceleratorProgram = ProgramOp | accelerator.ProgramOp


def run_program(
    program: AcceleratorProgram, arrays: Sequence[Array], written: Sequence[int]
) -> Call:
    """Run a program in its own order, and in other orders if its units synchronise.

    Raises:
        VerificationError: an instruction reads uninitialised or out-of-range entries.
        MismatchError: a result depends on the order of the units.
    """
    started = time.perf_counter()
    run = _stream(program) if isinstance(program, ProgramOp) else _described(program)
    in_order = _signed_copies(arrays)
    names = run(in_order, None)
    for seed in range(_ORDERS if names else 0):
        again = _signed_copies(arrays)
        run(again, seed)
        for number in written:
            if not np.array_equal(again[number], in_order[number]):
                raise MismatchError(
                    f"{names[number]} of @{program.sym_name.data} depends on the order in which "
                    "the units run",
                    where=place_of(program),
                )
    seconds = time.perf_counter() - started
    after = [a.view(old.dtype) for a, old in zip(in_order, arrays, strict=True)]
    return Call(*written_outputs(program, arrays, after, written), seconds=seconds)


Run = Callable[[Sequence[Array], "int | None"], Sequence[str]]
"""Runs a program on buffers, in its own order or in the order of a seed. Returns the names of its
buffers if units synchronise, so that other orders exist.
"""


def _stream(program: ProgramOp) -> Run:
    target = machine_of(program)
    stream = stream_for(program, target)
    plans: Plans = {}
    has_tokens = any(each.pops or each.pushes for each in stream.instructions)

    def run(arrays: Sequence[Array], seed: int | None) -> Sequence[str]:
        run_stream(stream, target, arrays, seed=seed, plans=plans)
        return [buffer.name for buffer in stream.buffers] if has_tokens else []

    return run


def _described(program: accelerator.ProgramOp) -> Run:
    facts = facts_for(program)
    read = read_program(program, facts)
    waits = any(task.pops or task.after for task in read.tasks)
    names = [value.name_hint or "a buffer" for value in program.body.block.args]

    def run(arrays: Sequence[Array], seed: int | None) -> Sequence[str]:
        order = None
        if seed is not None:
            order = orders.adversarial_order(read.machine, read.tasks, seed)
        execution.run_program(program, facts, arrays, order)
        return names if waits else []

    return run


def stored_buffers(program: AcceleratorProgram) -> tuple[int, ...]:
    """Return the positions of the arguments that a program stores to."""
    if isinstance(program, accelerator.ProgramOp):
        return program.stored
    stored = {op.buffer for op in program.instructions if isinstance(op, StoreOp)}
    return tuple(n for n, value in enumerate(program.body.block.args) if value in stored)


def _signed_copies(arrays: Sequence[Array]) -> list[Array]:
    """Return copies viewed as signed integers, the accelerator's interpretation of bytes."""
    return [
        each.view(f"i{each.itemsize}") if each.dtype.kind == "u" else each
        for each in private_copies(arrays)
    ]
