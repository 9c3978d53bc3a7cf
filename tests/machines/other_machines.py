"""How programs for other machines run here."""

from __future__ import annotations

import shutil

import pytest

from tcopt.backends.llvm.machine.host import host_target, named_target
from tcopt.backends.llvm.machine.linker import find_linker


def runner_for(name: str) -> list[str]:
    """The command that runs programs for a named target here; skips where there is none."""
    target = named_target(name)
    machine = target.machine
    if find_linker(target) is None:
        pytest.skip(f"needs a C compiler for {machine} (gcc-{machine}-linux-gnu)")
    if machine == host_target().machine:
        return []
    emulator = shutil.which(f"qemu-{machine}")
    if emulator is None:
        pytest.skip(f"needs qemu-{machine} (qemu-user)")
    return [emulator, "-cpu", "max", "-L", f"/usr/{machine}-linux-gnu"]
