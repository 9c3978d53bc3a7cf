"""The pipeline of a target: an ordered list of phases, each a list of passes.

A compile consists of these passes only. Running `tcopt -p` with the text of the same passes on the
imported graph gives the same code.
"""

from __future__ import annotations

from collections.abc import Iterable

from tcopt.support.accuracy import ACCURACIES, DEFAULT, PRECISE, PRECISIONS
from tcopt.support.errors import UnsupportedError
from tcopt.support.pipelines.pass_specs import Passes, PassSpec
from tcopt.support.pipelines.phases import KERNEL_PHASES, Phase
from tcopt.support.registries.target_registry import HOST_KIND, find_target
from tcopt.targets.interface import lacks_precision

HOST_ONLY = "host_only"
"""Attribute of pass classes that edit only the host function @main."""


def pipeline(
    target: str = HOST_KIND, accuracy: str = DEFAULT, precision: str = PRECISE
) -> list[Phase]:
    """Return the phases of a target, in order.

    Args:
        target: `cpu` for this machine, or a named CPU such as `cpu:cortex-a72`; `opencl`, or a
            named device such as `opencl:mali`; `cuda` for this machine's device, or a named one
            such as `cuda:sm_80`; or any other registered kind. The name of a machine alone is also
            accepted.
        accuracy: `strict`, `default` or `fast`: which faster algorithms with larger rounding errors
            may be used; see docs/accuracy.md.
        precision: `f32`, or the type that layers round their operands to: `bf16` on CPUs, `f16` on
            GPUs, both on CUDA devices.
    Raises:
        UnsupportedError: the target, accuracy or precision does not exist.
        InputError: the machine does not exist.
    """
    _check("accuracy", accuracy, ACCURACIES)
    _check("precision", precision, PRECISIONS)
    kind, machine = find_target(target)
    if precision not in kind.precisions:
        raise lacks_precision(kind, precision)
    return kind.pipeline(machine, accuracy, precision)


def _check(setting: str, value: str, known: Iterable[str]) -> None:
    """Raise UnsupportedError if a setting has an unknown value."""
    if value not in known:
        hint = f"it is one of {', '.join(known)}"
        raise UnsupportedError(f"there is no {setting} '{value}'", hint=hint)


def kernel_phases(phases: Iterable[Phase]) -> list[Phase]:
    """Return the phases that compile kernels, without the passes for the host function only."""
    from tcopt.support.registries.registry import all_passes

    known = all_passes()

    def of_kernels(spec: PassSpec) -> Passes:
        found = known.get(spec.name)
        return () if found is not None and getattr(found(), HOST_ONLY, False) else (spec,)

    return [phase.mapped(of_kernels) for phase in phases if phase.name in KERNEL_PHASES]
