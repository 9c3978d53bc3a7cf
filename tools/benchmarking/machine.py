"""Facts about the machine and package versions, stored with measurements."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from tcopt.backends.llvm.machine.host import host_target
from tcopt.support.processes.cores import usable_cores

_PACKAGES = ("tcopt", "onnxruntime", "openvino", "torch", "apache-tvm", "llvmlite", "numpy")


def machine_facts() -> dict[str, Any]:
    """Return CPU, memory, system, load and the versions of the measured packages."""
    target = host_target()
    return {
        "cpu": _cpu_name(),
        "llvm_cpu": target.cpu,
        "vector_bits": target.vector_bits,
        "cores": usable_cores(),
        "caches": {"l1": target.l1, "l2": target.l2, "l3": target.l3},
        "memory_bytes": _memory_bytes(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
    }


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
