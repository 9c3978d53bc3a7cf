"""`accelerator_run`: what a host program calls to run a program on an accelerator, which is
simulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from tcopt.backends.accelerator.settings import FUNCTION, Settings, program_in
from tcopt.support.host_functions.registry import buffer_function


@buffer_function(FUNCTION)
def accelerator_run(settings: Settings, arrays: Sequence[NDArray[Any]]) -> None:
    """Run the program that the settings tell on buffers, in its own order.

    Bytes without a sign are taken as bytes with one.
    """
    from tcopt.backends.accelerator.execution import run_program

    program, facts = program_in(settings)
    run_program(program, facts, [_as_signed(array) for array in arrays])


def _as_signed(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array
