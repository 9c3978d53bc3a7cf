"""Facts of the machine on which times are measured."""

from __future__ import annotations

import os
import platform
from typing import Any

from tcopt.backends.llvm.machine.host import default_target

_GIB = 1 << 30


def machine_facts(device: str = "") -> dict[str, Any]:
    """Return the facts of this machine; equal for machines of the same model.

    Args:
        device: the name of the device that kernels run on, if it is not the CPU.
    """
    target = default_target()
    facts: dict[str, Any] = {
        "system": platform.system(),
        "cpu": target.cpu,
        "model": _cpu_model(),
        "cores": target.cores,
        "l1": target.l1,
        "l2": target.l2,
        "l3": target.l3,
    }
    if hasattr(os, "sysconf"):
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        facts["memory_gib"] = round(size / _GIB)
    return facts | ({"device": device} if device else {})


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            for line in stream:
                name, _, value = line.partition(":")
                if name.strip() == "model name":
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
