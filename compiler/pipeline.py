"""The pipeline of a target: phases in order, each a list of passes.

A compile is nothing but these passes. `tcopt -p` with the text of the same passes on the imported
graph gives the same code.
"""

from __future__ import annotations

from collections.abc import Iterable

from tcopt.support.accuracy import ACCURACIES, DEFAULT, PRECISE, PRECISIONS
from tcopt.support.errors import UnsupportedError
from tcopt.support.pass_specs import Passes, PassSpec
from tcopt.support.phases import KERNEL_PHASES, PHASES, Phase
from tcopt.support.target_registry import HOST_KIND, find_target
from tcopt.targets.interface import lacks_precision

__all__ = ["HOST_ONLY", "PHASES", "Phase", "kernel_phases", "pipeline"]

HOST_ONLY = "host_only"
"""The attribute of a pass class which says that it edits nothing but the host function @main."""


def pipeline(
    target: str = HOST_KIND, accuracy: str = DEFAULT, precision: str = PRECISE
) -> list[Phase]:
    """The phases of a target, in order.

    Args:
        target: `cpu` for this machine, or a named CPU such as `cpu:cortex-a72`; `opencl`, or a
            named device such as `opencl:mali`; `cuda` for this machine's device, or a named one
            such as `cuda:sm_80`; any other kind that is registered. A machine's name alone will do.
        accuracy: `strict`, `default` or `fast`: which faster algorithms that round more may
            be used; see docs/accuracy.md.
        precision: `f32`, or what layers round their operands to: `bf16` on CPUs, `f16` on
            GPUs, both on those that CUDA reaches.
    Raises:
        UnsupportedError: there is no such target, accuracy or precision.
        InputError: there is no such machine.
    """
    _check("accuracy", accuracy, ACCURACIES)
    _check("precision", precision, PRECISIONS)
    kind, machine = find_target(target)
    if precision not in kind.precisions:
        raise lacks_precision(kind, precision)
    return kind.pipeline(machine, accuracy, precision)


def _check(setting: str, value: str, known: Iterable[str]) -> None:
    """UnsupportedError unless a setting has a value that it may have."""
    if value not in known:
        hint = f"it is one of {', '.join(known)}"
        raise UnsupportedError(f"there is no {setting} '{value}'", hint=hint)


def kernel_phases(phases: Iterable[Phase]) -> list[Phase]:
    """What of a pipeline concerns the kernels: passes that do not say that only the host does."""
    from tcopt.support.registry import all_passes

    known = all_passes()

    def of_kernels(spec: PassSpec) -> Passes:
        found = known.get(spec.name)
        return () if found is not None and getattr(found(), HOST_ONLY, False) else (spec,)

    return [phase.mapped(of_kernels) for phase in phases if phase.name in KERNEL_PHASES]
