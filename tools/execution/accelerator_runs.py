"""One call of one program of an accelerator, by the simulator's function."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.backends.vdla.simulator.function import Plans, run_stream
from tcopt.backends.vdla.source import machine_of, stream_for
from tcopt.dialects.vdla import ProgramOp, StoreOp
from tcopt.support.errors import MismatchError
from tcopt.tools.execution.stage_runs import Call, place_of, private_copies, written_outputs

Array = NDArray[Any]

_ORDERS = 3


def run_program(program: ProgramOp, arrays: Sequence[Array], written: Sequence[int]) -> Call:
    """Run a program in its own order, and if it has tokens in others that these allow.

    Raises:
        VerificationError: an instruction reads what nobody has written, or what is not there.
        MismatchError: the order of the units shows in a result.
    """
    target = machine_of(program)
    stream = stream_for(program, target)
    started = time.perf_counter()
    plans: Plans = {}
    in_order = _signed_copies(arrays)
    run_stream(stream, target, in_order, plans=plans)
    has_tokens = any(each.pops or each.pushes for each in stream.instructions)
    for seed in range(_ORDERS if has_tokens else 0):
        again = _signed_copies(arrays)
        run_stream(stream, target, again, seed=seed, plans=plans)
        for number in written:
            if not np.array_equal(again[number], in_order[number]):
                raise MismatchError(
                    f"{stream.buffers[number].name} of @{stream.name} depends on the order in "
                    "which the units run",
                    where=place_of(program),
                )
    seconds = time.perf_counter() - started
    after = [a.view(old.dtype) for a, old in zip(in_order, arrays, strict=True)]
    return Call(*written_outputs(program, arrays, after, written), seconds=seconds)


def stored_buffers(program: ProgramOp) -> tuple[int, ...]:
    """The arguments that a program stores to."""
    stored = {op.buffer for op in program.instructions if isinstance(op, StoreOp)}
    return tuple(n for n, value in enumerate(program.body.block.args) if value in stored)


def _signed_copies(arrays: Sequence[Array]) -> list[Array]:
    """Copies, as integers with a sign, which is how the accelerator takes bytes."""
    return [
        each.view(f"i{each.itemsize}") if each.dtype.kind == "u" else each
        for each in private_copies(arrays)
    ]
