"""Base class of targets whose kernels are source text and whose host function launches them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tcopt.support.errors import UnsupportedError
from tcopt.targets.interface import CompiledKernel, KernelCode, TargetKind

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp
    from xdsl.utils.target import Target

    from tcopt.runtime.container import Container
    from tcopt.runtime.device.interface import Device
    from tcopt.runtime.device.program import DeviceProgram
    from tcopt.runtime.run_options import DeviceName


class LaunchedTarget(TargetKind):
    """A target whose kernels run on a `Device`, as a sequence of launches and copies.

    Kernels are functions at the kernel level. Those that passes mark with a grid of threads are
    launched on that grid, all others with a single thread.
    """

    @abstractmethod
    def source(self, module: ModuleOp) -> str:
        """Return the kernels of a module as source text for the device.

        Raises:
            UnsupportedError: the device has no equivalent of an op or a type.
        """

    @abstractmethod
    def device(self) -> Device:
        """Return the device to run on.

        Raises:
            UnsupportedError: no device is available.
        """

    def open_device(self, which: DeviceName | None = None) -> Device:
        return self.device() if which is None else self.device_named(which)

    def device_named(self, which: DeviceName) -> Device:
        """Return the device of a number or name.

        Raises:
            UnsupportedError: there is none.
        """
        raise UnsupportedError(f"target {self.name} has one device, which has no number or name")

    def output(self) -> type[Target]:
        from xdsl.utils.target import Target

        kind = self

        class KernelText(Target):
            """Output format: the kernels of a module as source text for the device."""

            name = kind.name

            def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
                output.write(kind.source(module))

        return KernelText

    def check(self, module: ModuleOp) -> None:
        """Reject strings, and ops that are computed in Python at run time."""
        from xdsl.dialects.builtin import ArrayAttr

        from tcopt.dialects.graph.control.host_call import HostCallOp
        from tcopt.support.host.host_calls import TEXT_INPUTS, TEXT_OUTPUTS

        hint = "compile the model for a CPU"
        for op in module.walk():
            if isinstance(op, HostCallOp):
                message = f"{op.function.data} is computed by the host, not a device"
                raise UnsupportedError(message, op=op, hint=hint)
        for names in (module.attributes.get(TEXT_INPUTS), module.attributes.get(TEXT_OUTPUTS)):
            if isinstance(names, ArrayAttr) and len(names):
                message = f"devices do not support strings, such as {names.data[0]}"
                raise UnsupportedError(message, hint=hint)

    def kernel_code(self, module: ModuleOp, caller: FuncOp) -> KernelCode:
        from tcopt.runtime.device.host_steps import launches_of

        launches, allocated = launches_of(caller, module)
        return KernelCode(
            code=self.source(module).encode(),
            workspace=tuple(str(buffer.type) for buffer in allocated),
            launches=tuple(launches),
        )

    def build(
        self,
        module: ModuleOp,
        weights: MutableMapping[str, Any],
        kernels: Mapping[str, CompiledKernel],
        *,
        timed: bool = False,
    ) -> DeviceProgram:
        from tcopt.dialects.target import target_facts_of
        from tcopt.runtime.build import describe, main_of
        from tcopt.runtime.device.host_steps import steps_of, timed_launches
        from tcopt.runtime.device.interface import KernelSource
        from tcopt.runtime.device.program import DeviceProgram
        from tcopt.support.machines.device_target import DeviceTarget

        main, target = main_of(module), target_facts_of(module)
        assert target is not None
        threads = 1 if target.threads is None else target.threads.max_threads
        facts = describe(module, main, weights)
        host = steps_of(main, {name: kernel.launches for name, kernel in kernels.items()})
        distinct = {kernel.symbol: kernel for kernel in kernels.values()}
        return DeviceProgram(
            target=DeviceTarget(self.name, target.facts(), threads),
            device=self.open_device,
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
            timed=timed_launches(host) if timed else None,
            entries=host.entries,
            sizes=facts.sizes,
        )

    def describe(self, program: DeviceProgram) -> tuple[dict[str, Any], list[bytes | memoryview]]:
        from tcopt.runtime.device.archive import describe

        return describe(program)

    def read(self, path: Path, content: Container) -> DeviceProgram:
        from tcopt.runtime.device.archive import program_in

        return program_in(path, content, self.open_device)
