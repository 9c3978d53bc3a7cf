"""Accelerators driven by instruction streams, attached to a host CPU that calls their programs.

`partition` decides which functions run on the accelerator. The rest of the model, including the
code that calls the accelerator's programs, is compiled for this machine's CPU. Each kind of
accelerator is a subclass.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tcopt.support.accuracy import DEFAULT, PRECISE
from tcopt.support.errors import PassFailedError, UnsupportedError
from tcopt.support.pipelines.pass_specs import PassSpec, specs
from tcopt.support.pipelines.phases import Phase, with_passes
from tcopt.targets.cpu import CpuKind
from tcopt.targets.interface import KernelCode, TargetKind
from tcopt.targets.pipelines import LOOP, SCHEDULE

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp

    from tcopt.dialects.target import TargetFacts
    from tcopt.dialects.target.accelerator import AcceleratorFacts

    Array = NDArray[Any]


class AcceleratorKind(CpuKind):
    """The target kind `cpu` plus an accelerator attached to it.

    Attributes:
        name: name of the target kind.
        facts: class of the target attribute.
        machines: target attributes by machine name, the default first.
        kernel: passes that lower scheduled loops to a call of an accelerator program.
    """

    precisions = (PRECISE,)
    is_simulated = True
    kernel: ClassVar[Sequence[PassSpec]] = specs(
        "compact-buffers",
        "lower-blocks",
        "inject-virtual-threads",
        "place-sram",
        "lower-loop-to-accelerator",
        "order-units",
        "accelerator-check",
        "encode-accelerator",
    )

    if TYPE_CHECKING:
        facts: type[AcceleratorFacts]  # pyright: ignore
        machines: MutableMapping[str, Any]  # pyright: ignore

    def has_machine(self, name: str) -> bool:
        return name in self.machines

    def attribute(self, machine: str = "") -> TargetFacts:  # pyright: ignore
        return TargetKind.attribute(self, machine)

    def pipeline(self, machine: str, accuracy: str, precision: str) -> list[Phase]:
        self.attribute(machine)
        host = super().pipeline("", accuracy, precision)
        text = f"{self.name}:{machine}" if machine else self.name
        accelerator = (PassSpec.of("set-accelerator", target=text),)
        partition = (PassSpec.of("partition", accuracy=accuracy),)
        if accuracy == DEFAULT:
            partition = specs("partition")
        added = {"after:set-target": accelerator, "after:narrow-contractions": partition}
        return with_passes(host, added)

    def placed_phases(self) -> Sequence[Phase]:
        loop = (*specs("split-operations"), *LOOP)
        return (Phase("loop", loop), Phase("schedule", SCHEDULE), Phase("kernel", self.kernel))

    def kernel_code(self, module: ModuleOp, caller: FuncOp) -> KernelCode:
        from tcopt.runtime.build import host_calls

        calls = host_calls(module)
        if len(calls) != 1:
            raise PassFailedError("the kernel passes left no call of an accelerator program")
        return KernelCode(code=b"", host_call=(calls[0].function, calls[0].settings))

    def simulate(
        self, facts: TargetFacts, call: tuple[str, Mapping[str, Any]], arrays: Sequence[Array]
    ) -> float:
        from tcopt.backends.accelerator.report import report_of_call
        from tcopt.dialects.target import AcceleratorFacts
        from tcopt.support.host.host_functions.registry import find_host_function

        shapes, bits = [a.shape for a in arrays], [8 * a.itemsize for a in arrays]
        report = report_of_call(*call, shapes, bits)
        if report is None or not isinstance(facts, AcceleratorFacts):
            raise UnsupportedError(
                f"no simulator is known for '{call[0]}', which programs of {self.name} call",
                hint="override `simulate` of its target kind to run them",
            )
        find_host_function(call[0]).compute(call[1], arrays)
        return report.cycles * 1e3 / facts.megahertz

    def cache_facts(self, machine: str) -> object:
        return super().cache_facts(""), sorted(self.attribute(machine).facts().items())
