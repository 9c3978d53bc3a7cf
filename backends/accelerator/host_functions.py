"""`accelerator_run`: the host function that runs a program on a simulated accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from tcopt.backends.accelerator.settings import FUNCTION, Settings, program_in
from tcopt.support.host.host_functions.registry import buffer_function


@buffer_function(FUNCTION)
def accelerator_run(settings: Settings, arrays: Sequence[NDArray[Any]]) -> None:
    """Run the program in the settings on buffers, in program order.

    Unsigned bytes are treated as signed ones.
    """
    from tcopt.backends.accelerator.execution import run_program

    program, facts = program_in(settings)
    run_program(program, facts, [_as_signed(array) for array in arrays])


def _as_signed(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array
