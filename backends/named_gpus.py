"""GPUs by name, for any kind of target."""

from __future__ import annotations

from collections.abc import Iterator

from tcopt.dialects.target import GpuTargetAttr
from tcopt.support.errors import InputError
from tcopt.support.registries.target_registry import TARGETS, kinds_with


def named_gpu(name: str) -> GpuTargetAttr:
    """Return the GPU of this name.

    Raises:
        InputError: there is no such GPU.
    """
    for kind in kinds_with(name):
        device = kind.attribute(name)
        if isinstance(device, GpuTargetAttr):
            return device
    raise InputError(f"unknown GPU target '{name}'", hint=f"known targets: {', '.join(_known())}")


def _known() -> Iterator[str]:
    for kind in TARGETS.values():
        if issubclass(kind.facts, GpuTargetAttr):
            yield from kind.machines
