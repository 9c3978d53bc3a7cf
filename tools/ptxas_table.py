"""Resources of a model's kernels on a CUDA device, as reported by ptxas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from tcopt.support.errors import UnsupportedError
from tcopt.tools.command_line.text_tables import render

if TYPE_CHECKING:
    from tcopt.runtime import Model


def resources_text(model: Model) -> str:
    """Return a table of the registers, spills and memory of each kernel.

    Raises:
        UnsupportedError: the model is not for CUDA, or there is no ptxas.
        BackendError: ptxas rejects a kernel.
    """
    from tcopt.backends.ptx.ptxas import assemble
    from tcopt.runtime.device.program import DeviceProgram

    program = model.program
    if not isinstance(program, DeviceProgram) or program.kind != "cuda":
        raise UnsupportedError(
            "ptxas only assembles kernels for CUDA", hint="use a target such as cuda:sm_80"
        )
    arch = str(program.target.facts["arch"])
    found = [kernel for source in program.sources for kernel in assemble(source.text, arch)[1]]
    spilling = sum(kernel.spill_stores > 0 for kernel in found)
    title = f"{len(found)} kernels for {arch}, {spilling} of them spill registers"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    headings = ("registers", "spilled bytes", "stack bytes", "shared bytes", "threads at once")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("kernel", overflow="fold")
    for kernel in found:
        spilled = f"{kernel.spill_stores}+{kernel.spill_loads}" if kernel.spill_stores else "0"
        numbers = (kernel.stack, kernel.shared, kernel.threads_at_once())
        table.add_row(str(kernel.registers), spilled, *map(str, numbers), kernel.kernel)
    return render(table)
