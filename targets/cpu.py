"""CPU targets: LLVM object code with one entry point for the whole model."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcopt.support.accuracy import PRECISE
from tcopt.support.errors import PassFailedError
from tcopt.support.machines.cpu_target import CpuTarget
from tcopt.support.pipelines.pass_specs import PassSpec, specs
from tcopt.support.pipelines.phases import Phase, with_passes
from tcopt.support.registries.registration import Registry
from tcopt.support.registries.target_registry import is_attribute, register_target
from tcopt.targets.interface import CompiledKernel, KernelCode, TargetKind
from tcopt.targets.pipelines import SIMPLIFY, make_phases

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp
    from xdsl.ir import SSAValue

    from tcopt.dialects.target import CpuTargetAttr
    from tcopt.runtime.container import Container
    from tcopt.runtime.program import Program

_GRAPH = specs(
    "tabulate-bytes",
    *SIMPLIFY,
    "split-reductions",
    "narrow-contractions",
    "widen-floats",
    "separate-pools",
    "expand-conv-transpose",
    "split-taps",
    "sink-concat",
    "gather-pixels",
    "convert-layout",
    "pack-matmul",
    "bit-serial",
    "winograd",
    "pack-dots",
    "sink-concat",
    "fold-constants",
    "canonicalize",
    "propagate-padding",
    "copy-concats",
    "fuse-ops",
)
_KERNEL = specs(
    "lower-intrinsics",
    "expand-borders",
    "compact-buffers",
    "align-storage",
    "lower-blocks",
    "split-choices",
    "vectorize",
    "fuse-multiply-add",
    "unroll-loops",
    "hoist-workspace",
    "lower-loop-to-kernel",
    "promote-registers",
    "transpose-gathers",
    "interleave-scatters",
    "transpose-scatters",
    "expand-math",
    "plan-memory",
)

_LINUX = "unknown-linux-gnu"
_AVX2 = "+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,+movbe"
_AVX512 = f"{_AVX2},+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd"
# Features shared by the server CPUs of both vendors that have bf16 dot products.
_AVX512_BF16 = (
    f"{_AVX512},+avx512vbmi,+avx512vbmi2,+avx512vnni,+avx512bf16,+avx512vpopcntdq,+avx512bitalg"
    ",+avx512ifma,+gfni"
)
_NEON = "+neon,+fp-armv8"

_OWN: dict[str, CpuTarget] = {
    "x86-64": CpuTarget(
        f"x86_64-{_LINUX}", "x86-64", vector_bits=128, registers=16, l1=32 << 10, l2=256 << 10
    ),
    "haswell": CpuTarget(
        f"x86_64-{_LINUX}",
        "haswell",
        _AVX2,
        vector_bits=256,
        registers=16,
        l1=32 << 10,
        l2=256 << 10,
        l3=8 << 20,
        cores=4,
    ),
    "alderlake": CpuTarget(
        f"x86_64-{_LINUX}",
        "alderlake",
        f"{_AVX2},+avxvnni,+gfni",
        vector_bits=256,
        registers=16,
        l1=48 << 10,
        l2=5 << 18,
        l3=30 << 20,
        cores=8,
    ),
    "skylake-avx512": CpuTarget(
        f"x86_64-{_LINUX}",
        "skylake-avx512",
        _AVX512,
        vector_bits=512,
        registers=32,
        l1=32 << 10,
        l2=1 << 20,
        l3=16 << 20,
        cores=8,
    ),
    "cascadelake": CpuTarget(
        f"x86_64-{_LINUX}",
        "cascadelake",
        f"{_AVX512},+avx512vnni",
        vector_bits=512,
        registers=32,
        l1=32 << 10,
        l2=1 << 20,
        l3=16 << 20,
        cores=8,
    ),
    "sapphirerapids": CpuTarget(
        f"x86_64-{_LINUX}",
        "sapphirerapids",
        f"{_AVX512_BF16},+avxvnni,+avx512fp16",
        vector_bits=512,
        registers=32,
        l1=48 << 10,
        l2=2 << 20,
        l3=30 << 20,
        cores=16,
    ),
    "znver4": CpuTarget(
        f"x86_64-{_LINUX}",
        "znver4",
        _AVX512_BF16,
        vector_bits=512,
        registers=32,
        l1=32 << 10,
        l2=1 << 20,
        l3=32 << 20,
        cores=8,
        # 512-bit vector operations are executed as two halves.
        fma_units=1,
    ),
    "znver5": CpuTarget(
        f"x86_64-{_LINUX}",
        "znver5",
        f"{_AVX512_BF16},+avxvnni",
        vector_bits=512,
        registers=32,
        l1=48 << 10,
        l2=1 << 20,
        l3=32 << 20,
        cores=8,
    ),
    "cortex-a53": CpuTarget(
        f"aarch64-{_LINUX}",
        "cortex-a53",
        _NEON,
        vector_bits=128,
        registers=32,
        l1=32 << 10,
        l2=512 << 10,
        cores=4,
    ),
    "cortex-a72": CpuTarget(
        f"aarch64-{_LINUX}",
        "cortex-a72",
        _NEON,
        vector_bits=128,
        registers=32,
        l1=32 << 10,
        l2=1 << 20,
        cores=4,
    ),
    "neoverse-v1": CpuTarget(
        f"aarch64-{_LINUX}",
        "neoverse-v1",
        f"{_NEON},+dotprod,+i8mm,+bf16,+fullfp16,+sve",
        vector_bits=128,
        registers=32,
        l1=64 << 10,
        l2=1 << 20,
        l3=32 << 20,
        cores=16,
    ),
}

MACHINES: Registry[str, CpuTarget] = Registry("CPU", lambda: _OWN, in_keys=True)
"""Named CPUs, which can also be targets of cross-compilation.

A machine whose name is unknown has the core of the first one with its architecture and vectors.
"""


@register_target
class CpuKind(TargetKind):
    """CPUs supported by LLVM.

    The default machine is this one, or the one that `TCOPT_CPU` names.
    """

    name = "cpu"
    machines = MACHINES
    precisions = (PRECISE, "bf16")
    serves_sizes = True
    computes_sizes = True
    updates_inputs = True

    @property
    def facts(self) -> type[CpuTargetAttr]:  # pyright: ignore[reportIncompatibleVariableOverride]
        from tcopt.dialects.target import CpuTargetAttr

        return CpuTargetAttr

    def has_machine(self, name: str) -> bool:
        return name in HOST or name in self.machines

    def attribute(self, machine: str = "") -> CpuTargetAttr:
        from tcopt.backends.llvm.machine.host import named_target
        from tcopt.dialects.target import CpuTargetAttr

        if is_attribute(machine):
            found = super().attribute(machine)
            assert isinstance(found, CpuTargetAttr)
            return found
        return CpuTargetAttr.of(named_target(machine or "host"))

    def set_target(self, machine: str) -> PassSpec:
        return super().set_target(machine) if machine else PassSpec("set-target")

    def pipeline(self, machine: str, accuracy: str, precision: str) -> list[Phase]:
        return make_phases(self.set_target(machine), _GRAPH, _KERNEL, accuracy, precision)

    def timed_pipeline(self, phases: Sequence[Phase]) -> list[Phase]:
        named = super().timed_pipeline(phases)
        return with_passes(named, {"after:kernel": specs("instrument")})

    def kernel_code(self, module: ModuleOp, caller: FuncOp) -> KernelCode:
        from xdsl.dialects import func, memref

        from tcopt.backends.llvm.jit import external_names
        from tcopt.backends.llvm.machine.machine import assemble_object
        from tcopt.backends.llvm.module import target_of
        from tcopt.backends.llvm.objects import emit_text

        calls = [op for op in caller.body.block.ops if isinstance(op, func.CallOp)]
        if len(calls) != 1:
            raise PassFailedError("the kernel passes removed the call of the kernel")
        owners = [_memory(value).owner for value in calls[0].arguments]
        buffers = [owner.memref for owner in owners if isinstance(owner, memref.AllocOp)]
        target = target_of(module)
        text = emit_text(module, target)
        return KernelCode(
            code=assemble_object(text, target),
            workspace=tuple(str(buffer.type) for buffer in buffers),
            externals=tuple(sorted(external_names(text))),
        )

    def build(
        self,
        module: ModuleOp,
        weights: MutableMapping[str, Any],
        kernels: Mapping[str, CompiledKernel],
        *,
        timed: bool = False,
    ) -> Program:
        from tcopt.runtime.build import build_program

        # The pass `instrument` makes the host function record the times.
        distinct = {kernel.symbol: kernel for kernel in kernels.values() if kernel.code}
        return build_program(module, weights, list(distinct.values()))

    def describe(self, program: Program) -> tuple[dict[str, Any], list[bytes | memoryview]]:
        from tcopt.runtime.cpu_archive import describe

        return describe(program)

    def read(self, path: Path, content: Container) -> Program:
        from tcopt.runtime.cpu_archive import program_in

        return program_in(path, content)

    def loaded(self) -> None:
        from tcopt.backends.llvm.residency import release_code_pages

        release_code_pages()

    def cache_facts(self, machine: str) -> object:
        from tcopt.backends.llvm.machine.host import named_target

        return machine if is_attribute(machine) else named_target(machine or "host")

    def warm_up(self) -> None:
        from tcopt.backends.llvm.emit.registry import emit_rules
        from tcopt.backends.llvm.machine.host import default_target
        from tcopt.backends.llvm.machine.machine import target_machine

        emit_rules()
        target_machine(default_target())


def _memory(buffer: SSAValue) -> SSAValue:
    """Return the memory that a buffer with sizes is a view of."""
    from xdsl.dialects import memref

    owner = buffer.owner
    return owner.source if isinstance(owner, memref.ReinterpretCastOp) else buffer


HOST = ("host", "cpu", "native")
"""Aliases of the default machine."""
