"""The VDLA accelerator of docs/vdla.md, whose programs run in a simulator."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from tcopt.support.registries.target_registry import register_target
from tcopt.targets.accelerator import AcceleratorKind

if TYPE_CHECKING:
    from tcopt.dialects.target import VdlaTargetAttr


@register_target
class VdlaKind(AcceleratorKind):
    """Target kind of the VDLA, whose instructions are the dialect `vdla`."""

    name = "vdla"

    @property
    def facts(self) -> type[VdlaTargetAttr]:  # pyright: ignore
        from tcopt.dialects.target import VdlaTargetAttr

        return VdlaTargetAttr

    @property
    def machines(self) -> MutableMapping[str, VdlaTargetAttr]:  # pyright: ignore
        from tcopt.backends.vdla.machines import MACHINES

        return MACHINES
