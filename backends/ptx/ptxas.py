"""Assembly of PTX by ptxas, and the registers and memory that kernels use."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tcopt.backends.ptx import cuda_files
from tcopt.support.errors import BackendError, UnsupportedError

_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
MULTIPROCESSOR_REGISTERS = 65536
_REGISTER_UNIT, _WARP, _MOST_THREADS = 8, 32, 2048


@dataclass(frozen=True)
class KernelResources:
    """Resources used by a kernel.

    Attributes:
        registers: 32-bit registers per thread.
        stack: bytes of thread-private memory, including spills.
        spill_stores, spill_loads: bytes of spills per thread.
        shared: bytes of shared memory per block.
    """

    kernel: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int

    def threads_at_once(self) -> int:
        """Return the number of threads that the registers of a multiprocessor suffice for."""
        each = -(-max(self.registers, 1) // _REGISTER_UNIT) * _REGISTER_UNIT
        return min(MULTIPROCESSOR_REGISTERS // (each * _WARP) * _WARP, _MOST_THREADS)


def assemble(ptx: str, arch: str) -> tuple[bytes, list[KernelResources]]:
    """Return the machine code of PTX, and the resources that its kernels use.

    Raises:
        UnsupportedError: ptxas is not installed.
        BackendError: ptxas rejects the text.
    """
    ptxas = cuda_files.find_ptxas()
    if ptxas is None:
        raise UnsupportedError("ptxas is not installed", hint=cuda_files.HINT)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernels.ptx", Path(folder) / "kernels.cubin"
        source.write_text(ptx, encoding="utf-8")
        command = [str(ptxas), "-v", f"-arch={arch}", str(source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise BackendError(
                f"ptxas rejects the generated code for {arch}: {said[0] if said else 'no reason'}"
            )
        return target.read_bytes(), _resources(done.stderr + done.stdout)


def _resources(said: str) -> list[KernelResources]:
    """Parse the output of `-v` for each kernel."""
    found: list[KernelResources] = []
    parts = _ENTRY.split(said)
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        spills, used, shared = _SPILLS.search(text), _USED.search(text), _SHARED.search(text)
        stack, stores, loads = map(int, spills.groups()) if spills else (0, 0, 0)
        registers, bytes = (int(m.group(1)) if m else 0 for m in (used, shared))
        found.append(KernelResources(name, registers, stack, stores, loads, bytes))
    return found
