"""Models whose kernels run on a device: kernels one by one, and the host as a list of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from math import prod

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.utils.hints import isa

from tcopt.compiler.host import declare_kernels, take_kernels
from tcopt.compiler.kernel_builder import KernelBuilder
from tcopt.compiler.passes import run_passes
from tcopt.dialects.graph.weights import weights_of
from tcopt.dialects.target import gpu_target_of
from tcopt.passes.kernel.memory_sizes import memref_bytes
from tcopt.runtime.build import describe, main_of
from tcopt.runtime.device.interface import KernelSource
from tcopt.runtime.device.program import DeviceProgram
from tcopt.runtime.device.steps import HostSteps, steps_of
from tcopt.runtime.profile import TimedKernel
from tcopt.support.origins import call_origin
from tcopt.support.phases import Phase

Step = Callable[[str], AbstractContextManager[None]]


def build_for_device(
    module: ModuleOp,
    phases: Sequence[Phase],
    builder: KernelBuilder,
    step: Step,
    *,
    timed: bool = False,
) -> DeviceProgram:
    """The program of an imported model.

    Args:
        builder: compiles the kernels, or knows them.
        step: opens a step of the compile, by its name.
        timed: whether each run of the program notes the time of its launches.
    Raises:
        TcoptError: a pass failed, or an op has no form on the device.
    """
    by_name = {phase.name: phase.passes for phase in phases}
    for name in ("graph", "te"):
        with step(name):
            run_passes(module, by_name[name])
    with step("kernels"):
        functions = take_kernels(module)
        run_passes(module, by_name["loop"])
        # Copies of inputs and constants to results are kernels that the host asks for.
        functions |= take_kernels(module)
        kernels = builder.build(functions, module)
    with step("host"):
        declare_kernels(module, kernels)
        for name in ("schedule", "kernel"):
            run_passes(module, by_name[name])
        main, target = main_of(module), gpu_target_of(module)
        assert target is not None
        facts = describe(module, main, weights_of(module) or {})
        host = steps_of(main, {name: kernel.launches for name, kernel in kernels.items()})
        distinct = {kernel.symbol: kernel for kernel in kernels.values()}
        return DeviceProgram(
            target=target,
            sources=[
                KernelSource(k.code.decode(), tuple(launch.kernel for launch in k.launches))
                for k in distinct.values()
            ],
            steps=host.steps,
            inputs=facts.inputs,
            outputs=facts.outputs,
            weights=facts.weights,
            workspace_bytes=facts.workspace_bytes,
            report=facts.report,
            timed=_timed(host) if timed else None,
            entries=host.entries,
            kernels_compiled=builder.counts.compiled,
        )


def _timed(host: HostSteps) -> list[TimedKernel]:
    """What is known of each launch; the work of a call that makes several belongs to none."""
    launches = [call for call, _ in host.calls]
    found: list[TimedKernel] = []
    for call, launch in host.calls:
        origin = call_origin(call)
        if launches.count(call) > 1:
            origin = replace(origin, work=0)
        buffers = [call.arguments[position] for position in launch.arguments]
        size = sum(memref_bytes(b.type) for b in buffers if isa(b.type, MemRefType))
        name = call.callee.string_value()
        threads = prod(launch.grid) * prod(launch.block)
        found.append(TimedKernel(name, origin, size, parallel=True, threads=threads))
    return found
