"""The number of cores and threads that this process may use."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
THREADS_ENVIRONMENT = "TCOPT_NUM_THREADS"


@cache
def usable_cores() -> int:
    """Return the number of usable CPUs: the affinity mask, within the cgroup's quota."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cores = len(os.sched_getaffinity(0))
    quota = _cpu_quota()
    return cores if quota is None else max(1, min(cores, round(quota)))


def _cpu_quota() -> float | None:
    """Return the CPU quota of the container's cgroup (version 2); None if unlimited or unknown."""
    try:
        time, period = _CPU_QUOTA.read_text().split()
        return None if time == "max" else int(time) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


@cache
def default_threads() -> int:
    """Return the default number of threads: `TCOPT_NUM_THREADS`, or the number of usable cores."""
    try:
        asked = int(os.environ.get(THREADS_ENVIRONMENT, ""))
    except ValueError:
        asked = 0
    return asked if asked > 0 else usable_cores()
