"""Accelerators that can be named.

`vdla` is the machine of the TVM paper (section 6.4): results of 32 bits, no alu. `vta` is VTA with
its alu and results of a byte, and memories for weights as large as its default. `pynq` has the
constants with which the ten times of ResNet-18's convolutions that TVM published for VTA on a Pynq
board come out: its port moves 3.7 bytes a cycle and takes 28 cycles more for each row.
"""

from __future__ import annotations

from tcopt.dialects.target import VdlaTargetAttr
from tcopt.support.errors import InputError
from tcopt.support.registration import Registry

MACHINES: Registry[str, VdlaTargetAttr] = Registry("VDLA machine", in_keys=True)
"""Machines by name."""

_SIZES = {"inp_bytes": 32 << 10, "acc_bytes": 128 << 10, "uop_bytes": 32 << 10}

MACHINES.add("vdla", VdlaTargetAttr.of_facts({**_SIZES, "wgt_bytes": 32 << 10}))
MACHINES.add(
    "vta",
    VdlaTargetAttr.of_facts(
        {**_SIZES, "wgt_bytes": 32 << 10, "results": "i8", "features": "alu,load_i8"}
    ),
)
MACHINES.add(
    "pynq",
    VdlaTargetAttr.of_facts(
        {
            **_SIZES,
            "wgt_bytes": 256 << 10,
            "results": "i8",
            "features": "alu,load_i8",
            "port_bytes": 37,
            "port_cycles": 10,
            "row_cycles": 28,
            "latency": 0,
            "alu_imm": 2,
            "alu_reg": 2,
            "rewrite": 2,
            "start": 20_000,
        }
    ),
)


def named_machine(name: str) -> VdlaTargetAttr:
    """A machine by its name.

    Raises:
        InputError: there is none of it.
    """
    if name not in MACHINES:
        raise InputError(
            f"unknown VDLA machine '{name}'", hint=f"known machines: {', '.join(MACHINES)}"
        )
    return MACHINES[name]
