"""Named accelerators.

`vdla` is the machine of the TVM paper (section 6.4): 32-bit results, no alu. `vta` has VTA's alu
and 8-bit results; the alu of `vta-mulh` also multiplies. `pynq` is VTA's default configuration
with a larger weight memory. Its parameters were fitted to the ten times that TVM published for
ResNet-18's convolutions on a Pynq board (docs/vdla.md): its port moves 3.7 bytes per cycle, plus
36 cycles per row. They model the board's memory and driver together and have not been measured
individually.
"""

from __future__ import annotations

from typing import Any

from tcopt.dialects.target import VdlaTargetAttr
from tcopt.support.errors import InputError
from tcopt.support.registries.registration import Registry

_VTA = {
    "inp_bytes": 32 << 10,
    "acc_bytes": 128 << 10,
    "uop_bytes": 32 << 10,
    "wgt_bytes": 32 << 10,
    "results": "i8",
    "features": "alu,load_i8",
}
_FACTS: dict[str, dict[str, Any]] = {
    "vdla": {name: size for name, size in _VTA.items() if name.endswith("_bytes")},
    "vta": _VTA,
    "vta-mulh": {**_VTA, "features": "alu,load_i8,mulh"},
    "pynq": {
        **_VTA,
        "wgt_bytes": 256 << 10,
        "port_bytes": 37,
        "port_cycles": 10,
        "row_cycles": 36,
        "fill": 0,
        "rewrite": 2,
        "start": 16_000,
    },
}

MACHINES: Registry[str, VdlaTargetAttr] = Registry(
    "VDLA machine",
    lambda: {name: VdlaTargetAttr.of_facts(facts) for name, facts in _FACTS.items()},
    in_keys=True,
)
"""Machines by name."""


def named_machine(name: str) -> VdlaTargetAttr:
    """Return the machine of this name.

    Raises:
        InputError: there is no such machine.
    """
    if name not in MACHINES:
        raise InputError(
            f"unknown VDLA machine '{name}'", hint=f"known machines: {', '.join(MACHINES)}"
        )
    return MACHINES[name]
