"""Models whose kernels run on a device: all passes on the whole module, then its source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from xdsl.dialects.builtin import ModuleOp

from tcopt.backends.opencl.source import write_source
from tcopt.compiler.passes import run_passes
from tcopt.compiler.pipeline import Phase
from tcopt.dialects.graph.weights import weights_of
from tcopt.runtime.build import describe, main_of
from tcopt.runtime.device.opencl import opencl_device
from tcopt.runtime.device.program import DeviceProgram
from tcopt.runtime.device.steps import steps_of

Step = Callable[[str], AbstractContextManager[None]]


def build_for_device(module: ModuleOp, phases: Sequence[Phase], step: Step) -> DeviceProgram:
    """The program of an imported model.

    Args:
        step: opens a step of the compile, by its name.
    Raises:
        TcoptError: a pass failed, or an op has no form on the device.
    """
    by_name = {phase.name: phase.passes for phase in phases}
    for name in ("graph", "te"):
        with step(name):
            run_passes(module, by_name[name])
    with step("kernels"):
        for name in ("loop", "schedule", "kernel"):
            run_passes(module, by_name[name])
        source = write_source(module)
    with step("host"):
        main = main_of(module)
        facts = describe(module, main, weights_of(module) or {})
        return DeviceProgram(
            source=source,
            steps=steps_of(main, module),
            device=opencl_device,
            inputs=facts.inputs,
            outputs=facts.outputs,
            weights=facts.weights,
            workspace_bytes=facts.workspace_bytes,
            report=facts.report,
        )
