"""CPU targets: this machine, and CPUs selected by name or environment variable.

The table of named CPUs is in `targets/cpu.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from tcopt.support.errors import InputError
from tcopt.support.machines.cpu_target import CpuTarget
from tcopt.support.processes.cores import usable_cores
from tcopt.support.registries.target_registry import HOST_KIND, target_named

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
CPU_ENVIRONMENT = "TCOPT_CPU"
"""The environment variable with the default CPU to compile for."""


@cache
def host_target() -> CpuTarget:
    """Return this machine as a target, with conservative sizes if they cannot be determined."""
    triple = llvm.get_process_triple()
    features = llvm.get_host_cpu_features()
    caches = _cache_sizes()
    bits, registers = _vector_unit(triple, features)
    name = llvm.get_host_cpu_name()
    return replace(
        _core(name, triple.partition("-")[0], bits),
        triple=triple,
        cpu=name,
        features=",".join(sorted(f"+{name}" for name, present in features.items() if present)),
        vector_bits=bits,
        registers=registers,
        l1=caches.get(1, 32 << 10),
        l2=caches.get(2, 256 << 10),
        l3=caches.get(3, 0),
        cores=usable_cores(),
    )


def _core(name: str, architecture: str, bits: int) -> CpuTarget:
    """Return the named CPU whose core is this machine's, or a typical one with such vectors.

    A hypervisor may mask vectors, which are then computed at full width.
    """
    known = named_cpus()
    alike = [
        cpu for cpu in known.values() if (cpu.machine, cpu.vector_bits) == (architecture, bits)
    ]
    return known[name] if known.get(name) in alike else next(iter(alike), CpuTarget(""))


def named_cpus() -> Mapping[str, CpuTarget]:
    """Return the CPUs that are known by name."""
    return target_named(HOST_KIND).machines


def default_target() -> CpuTarget:
    """Return the default target: the CPU in `TCOPT_CPU`, or this machine.

    Raises InputError if the variable names an unknown CPU, or one whose code cannot run here.
    """
    return _default_target(os.environ.get(CPU_ENVIRONMENT, ""))


@cache
def _default_target(name: str) -> CpuTarget:
    if name in ("", "host"):
        return host_target()
    known = named_cpus()
    if name not in known:
        raise InputError(
            f"{CPU_ENVIRONMENT} names an unknown CPU '{name}'", hint=f"known are: {_known()}"
        )
    reason = obstacle(known[name])
    if reason is not None:
        raise InputError(
            f"{CPU_ENVIRONMENT} names {name}, whose code cannot run on this machine, "
            f"which {reason}",
            hint=f"CPUs whose code can run here: {', '.join(runnable_targets())}",
        )
    return known[name]


def obstacle(target: CpuTarget) -> str | None:
    """Describe why this machine cannot run code for a target, to follow "this machine"."""
    host = host_target()
    if target.machine != host.machine:
        return f"is {host.machine}, not {target.machine}"
    lacking = {f for f in target.features.split(",") if f.startswith("+")}
    lacking -= set(host.features.split(","))
    return f"has no {', '.join(sorted(lacking))}" if lacking else None


def runnable_targets() -> list[str]:
    """Return the names of the CPUs whose code this machine can run."""
    return [name for name, target in named_cpus().items() if obstacle(target) is None]


def named_target(name: str) -> CpuTarget:
    """Return the target of a name: `host` for `default_target`, or one of `named_cpus`.

    Raises InputError for any other name.
    """
    if name in ("host", "cpu", "native"):
        return default_target()
    known = named_cpus()
    if name not in known:
        raise InputError(f"unknown CPU target '{name}'", hint=f"known targets: {_known()}")
    return known[name]


def _known() -> str:
    return ", ".join(["host", *named_cpus()])


def _vector_unit(triple: str, features: dict[str, bool]) -> tuple[int, int]:
    """Return the vector width in bits and the number of vector registers."""
    if triple.startswith(("x86_64", "i686")):
        if features.get("avx512f") and features.get("avx512vl"):
            return 512, 32
        return (256 if features.get("avx2") else 128), 16
    return 128, 32


def _cache_sizes() -> dict[int, int]:
    """Return data cache sizes in bytes by level, as reported by Linux."""
    sizes: dict[int, int] = {}
    try:
        for index in sorted(_CACHES.glob("index*")):
            if (index / "type").read_text().strip() == "Instruction":
                continue
            level = int((index / "level").read_text())
            text = (index / "size").read_text().strip()
            unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1], 1)
            sizes[level] = int(text.rstrip("KM")) * unit
    except (OSError, ValueError):
        return sizes
    # A virtual machine may report a small outer cache; sizes must not decrease outwards.
    for level in (2, 3):
        if level in sizes and sizes[level] < sizes.get(level - 1, 0):
            sizes[level] = sizes[level - 1]
    return sizes
