"""LLVM IR of the thread pool for a target.

The `.ll` files are generated from the C files by `generate.py`. The constants and functions
declared in `pool.h` depend on the target and are defined here.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tcopt.backends.llvm.machine.machine import assemble_object, data_layout
from tcopt.support.machines.cpu_target import CpuTarget

PARALLEL_SYMBOL = "tcopt_parallel"
"""`void tcopt_parallel(void (*fn)(void *, int64_t, int64_t), void *ctx, int64_t total,
int64_t grain, int32_t threads)`."""
STOP_VARIABLE = "tcopt_stop"
"""An i32 that is nonzero if a run should end; -N if an allocation of N KiB failed."""

THREADS_VARIABLE = "tcopt_num_threads"
"""An i32 with the number of threads for parallel loops; 0 leaves the choice to the pool."""

SPIN_NS = 100_000
"""How long an idle thread spins before it sleeps. It is shorter than a time slice, so spinning
never blocks a busy core for long; it is longer than the gap between the parallel loops of a
model, and than the time to wake a thread."""

_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "i386": 240, "i686": 240}
"""Linux's system call number of `futex`."""

_PAUSES = {"x86_64": ("llvm.x86.sse2.pause", ""), "aarch64": ("llvm.aarch64.hint", "i32 1")}
_NO_PAUSE = ("llvm.donothing", "")

_AT_FORK = {
    "pthread_atfork": "ptr null, ptr null, ptr %child",
    "__register_atfork": "ptr null, ptr null, ptr %child, ptr null",
}
"""Functions that register a handler for the child of a fork. glibc's `pthread_atfork` works in
linked code only; code loaded by other means calls the underlying function."""


def pool_text(
    target: CpuTarget,
    *,
    linkage: str = "weak hidden",
    at_fork: str = "pthread_atfork",
    sleep: str | None = None,
) -> str:
    """Return the LLVM IR of the pool.

    Args:
        linkage: linkage of the exported functions.
        at_fork: `pthread_atfork`, or glibc's `__register_atfork`.
        sleep: `linux` or `posix`; by default according to the target's operating system.
    """
    futex = _FUTEX.get(target.machine)
    linux = "linux" in target.triple
    if sleep is None:
        sleep = "linux" if linux and futex is not None else "posix"
    constants = {"spin_ns": SPIN_NS, "clock": 1 if linux else 6, "setmask": 2 if linux else 3}
    constants |= {"sigbus": 7 if linux else 10}
    constants |= {"futex": futex or 0} if sleep == "linux" else {"online": 84 if linux else 58}
    pause, operands = _PAUSES.get(target.machine, _NO_PAUSE)
    text = _source(f"pool_{sleep}").replace(
        f"define void @{PARALLEL_SYMBOL}(", f"define {linkage} void @{PARALLEL_SYMBOL}("
    )
    for name, value in constants.items():
        text = _defined(
            text, rf"(@pool_{name} =) external hidden( .*),", rf"\1 internal\2 {value},"
        )
    text = _defined(
        text,
        r"declare hidden void @pool_pause\(\)",
        _function("pool_pause()", "void", pause, operands),
    )
    text = _defined(
        text,
        r"declare hidden void @pool_at_fork\(ptr\)",
        _function("pool_at_fork(ptr %child)", "i32", at_fork, _AT_FORK[at_fork]),
    )
    return _head(target) + text


def _defined(text: str, declaration: str, definition: str) -> str:
    """Replace a declaration by a definition."""
    new, count = re.subn(rf"^{declaration}", definition, text, flags=re.M)
    assert count == 1, declaration
    return new


def _function(signature: str, result: str, callee: str, operands: str) -> str:
    """Return a function that only calls another one."""
    types = ", ".join(operand.split()[0] for operand in operands.split(", ") if operand)
    return f"""declare {result} @{callee}({types})
define internal void @{signature} nounwind {{
  {"" if result == "void" else "%status = "}call {result} @{callee}({operands})
  ret void
}}"""


def _head(target: CpuTarget) -> str:
    return f'target datalayout = "{data_layout(target)}"\ntarget triple = "{target.triple}"\n'


def setting_text() -> str:
    """Return the LLVM IR of a library's variables and of the functions that set them."""
    return _source("setting")


def interrupt_text(target: CpuTarget) -> str:
    """Return the LLVM IR of the Ctrl-C handler that runs before Python's."""
    return _head(target) + _source("interrupt")


@cache
def pool_object(target: CpuTarget, symbol: str = PARALLEL_SYMBOL) -> bytes:
    """Return object code of the pool, with another name of its function if one is given."""
    text = pool_text(target).replace(f"@{PARALLEL_SYMBOL}(", f"@{symbol}(")
    return assemble_object(text, target)


def _source(name: str) -> str:
    return (Path(__file__).parent / f"{name}.ll").read_text(encoding="utf-8")
