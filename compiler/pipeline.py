"""The pipeline of a target: phases in order, each a list of passes.

A compile is nothing but these passes. `tcopt -p` with the text of the same passes on the imported
graph gives the same code.
"""

from __future__ import annotations

from collections.abc import Iterable

from tcopt.support.accuracy import ACCURACIES, DEFAULT, PRECISE, PRECISIONS
from tcopt.support.errors import UnsupportedError
from tcopt.support.phases import Passes, PassSpec, Phase, configured, specs, with_passes
from tcopt.support.suggestions import suggest

_SIMPLIFY = specs(
    "fake-quantization-to-integer",
    "fold-constants",
    "fold-shapes",
    "decompose",
    "hoist-slices",
    "fold-constants",
    "fold-scale",
    "canonicalize",
)
_GRAPH = specs(
    *_SIMPLIFY,
    "narrow-contractions",
    "widen-contractions",
    "expand-conv-transpose",
    "sink-concat",
    "gather-pixels",
    "convert-layout",
    "pack-matmul",
    "pack-dots",
    "winograd",
    "sink-concat",
    "fold-constants",
    "canonicalize",
    "propagate-padding",
    "fuse-ops",
)
_TE = specs("lower-graph-to-te", "te-inline", "split-axes", "merge-axes")
_LOOP = specs(
    "lower-te-to-loop",
)
_SCHEDULE = specs(PassSpec.of("schedule", now=True), "apply-schedule")
_BUFFERS = specs(
    "expand-borders",
    "compact-buffers",
    "align-storage",
    "lower-blocks",
    "vectorize",
    "fuse-multiply-add",
    "unroll-loops",
    "hoist-workspace",
)
_KERNEL = specs(
    "lower-intrinsics",
    *_BUFFERS,
    "lower-loop-to-kernel",
    "promote-registers",
    "transpose-gathers",
    "interleave-scatters",
    "transpose-scatters",
    "expand-math",
    "plan-memory",
)

_GPU_GRAPH = specs(
    *_SIMPLIFY,
    "narrow-contractions",
    "fold-constants",
    "convert-layout",
    "pack-matmul",
    "pack-dots",
    "winograd",
    "fold-constants",
    "canonicalize",
    "fuse-ops",
)
_GPU_KERNEL = specs(
    "lower-intrinsics",
    "expand-borders",
    "compact-buffers",
    "align-storage",
    "lower-blocks",
    "distribute-warp",
    "lower-thread-reductions",
    "inject-virtual-threads",
    "double-buffer",
    "insert-barriers",
    "bind-parallel-loops",
    "vectorize",
    "fuse-multiply-add",
    "unroll-loops",
    "hoist-workspace",
    "split-launches",
    "lower-loop-to-kernel",
    "promote-registers",
    "dce",
    "plan-memory",
)

_CPU_PRECISIONS = (PRECISE, "bf16")
_GPU_PRECISIONS = {"opencl": (PRECISE, "f16"), "cuda": (PRECISE, "f16", "bf16")}

DEVICE_TARGETS = ("opencl", "cuda")
"""Targets whose kernels run on a device of their own."""

PHASES = ("import", "graph", "te", "loop", "schedule", "kernel", "code")
"""Names of all phases; `import` and `code` hold no passes."""


def pipeline(target: str = "cpu", accuracy: str = DEFAULT, precision: str = PRECISE) -> list[Phase]:
    """The phases of a target, in order.

    Args:
        target: `cpu` for this machine, or a named CPU such as `cpu:cortex-a72`; `opencl`, or a
            named device such as `opencl:mali`; `cuda` for this machine's device, or a named one
            such as `cuda:sm_80`. A device's name alone will do.
        accuracy: `strict`, `default` or `fast`: which faster algorithms that round more may
            be used; see docs/accuracy.md.
        precision: `f32`, or what layers round their operands to: `bf16` on CPUs, `f16` on
            GPUs, both on those that CUDA reaches.
    Raises:
        UnsupportedError: there is no such target, accuracy or precision.
    """
    _check("accuracy", accuracy, ACCURACIES)
    _check("precision", precision, PRECISIONS)
    kind, _, name = target.partition(":")
    if kind in DEVICE_TARGETS:
        return _device_pipeline(kind, name, accuracy, precision)
    if kind != "cpu":
        if (api := _reached_by(target)) is None:
            hint = suggest(kind, ("cpu", *DEVICE_TARGETS))
            raise UnsupportedError(f"there is no target '{target}'", hint=hint)
        return _device_pipeline(api, target, accuracy, precision)
    set_target = PassSpec.of("set-target", cpu=name) if name else PassSpec("set-target")
    if precision not in _CPU_PRECISIONS:
        raise UnsupportedError(f"target {kind} has no precision '{precision}'")
    return _phases((set_target, *_GRAPH), _KERNEL, accuracy, precision)


def _device_pipeline(kind: str, name: str, accuracy: str, precision: str) -> list[Phase]:
    if precision not in _GPU_PRECISIONS[kind]:
        raise UnsupportedError(f"target {kind} has no precision '{precision}'")
    kernel = _GPU_KERNEL
    if name:
        _check_device(kind, name)
    if kind == "cuda":
        # Other pipelines are told without xDSL, which this module's targets need.
        from tcopt.backends.named_gpus import DEFAULT_CUDA
        from tcopt.runtime.device.cuda import local_arch

        name = name or local_arch() or DEFAULT_CUDA
        # Other devices have these functions themselves.
        kernel = (*kernel[:-2], *specs("expand-math"), *kernel[-2:])
    set_target = PassSpec.of("set-target", gpu=name or kind)
    return _phases((set_target, *_GPU_GRAPH), kernel, accuracy, precision)


def _reached_by(device: str) -> str | None:
    """The kind of target that a named device is; None if there is no such device."""
    from tcopt.backends.named_gpus import NAMED_GPUS

    named = NAMED_GPUS.get(device)
    return None if named is None else named.api.data


def _check_device(kind: str, name: str) -> None:
    """UnsupportedError unless a named device is reached in the way that a target says."""
    from tcopt.backends.named_gpus import NAMED_GPUS, named_gpu

    if (api := named_gpu(name).api.data) != kind:
        names = ", ".join(other for other, gpu in NAMED_GPUS.items() if gpu.api.data == kind)
        raise UnsupportedError(
            f"device '{name}' is reached by {api}, not by {kind}",
            hint=f"target {api}:{name}; devices of {kind} are {names}",
        )


def is_device(target: str) -> bool:
    """Whether the kernels of a target that there is run on a device of their own."""
    return target.partition(":")[0] != "cpu"


def _phases(graph: Passes, kernel: Passes, accuracy: str, precision: str) -> list[Phase]:
    """The phases, with what an accuracy and a precision make of them."""
    phases = [
        Phase("import"),
        Phase("graph", graph),
        Phase("te", _TE),
        Phase("loop", _LOOP),
        Phase("schedule", _SCHEDULE),
        Phase("kernel", kernel),
        Phase("code"),
    ]
    if accuracy != DEFAULT:
        phases = configured(phases, "winograd", accuracy=accuracy)
    if precision != PRECISE:
        lower = (PassSpec.of("lower-precision", to=precision),)
        phases = with_passes(phases, {"before:pack-dots": lower})
    return phases


def _check(setting: str, value: str, known: Iterable[str]) -> None:
    """UnsupportedError unless a setting has a value that it may have."""
    if value not in known:
        hint = f"it is one of {', '.join(known)}"
        raise UnsupportedError(f"there is no {setting} '{value}'", hint=hint)


KERNEL_PHASES = ("loop", "schedule", "kernel")
"""The phases that each kernel goes through, and that may be run on one kernel alone."""

HOST_ONLY = "host_only"
"""The attribute of a pass class which says that it edits nothing but the host function @main."""


def kernel_phases(phases: Iterable[Phase]) -> list[Phase]:
    """What of a pipeline concerns the kernels: passes that do not say that only the host does."""
    from tcopt.support.registry import all_passes

    known = all_passes()

    def of_kernels(spec: PassSpec) -> Passes:
        found = known.get(spec.name)
        return () if found is not None and getattr(found(), HOST_ONLY, False) else (spec,)

    return [phase.mapped(of_kernels) for phase in phases if phase.name in KERNEL_PHASES]


def with_origins(phases: Iterable[Phase]) -> list[Phase]:
    """The same phases, with kernel calls that know their ONNX nodes."""
    return configured(phases, _TE[0].name, origins=True)


def with_clocks(phases: Iterable[Phase]) -> list[Phase]:
    """The same phases, with a clock around each kernel call, which knows its ONNX nodes."""
    return with_passes(with_origins(phases), {"after:kernel": specs("instrument")})
