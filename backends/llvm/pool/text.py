"""The pool's LLVM IR for a target.

`pool.ll` holds what is common, with `$name` where systems differ; `linux.ll` and `posix.ll`
hold two ways to sleep and wake.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from string import Template

from tcopt.backends.llvm.machine.machine import assemble_object, data_layout
from tcopt.support.cpu_target import CpuTarget

PARALLEL_SYMBOL = "tcopt_parallel"
"""`void tcopt_parallel(void (*fn)(void *, int64_t, int64_t), void *ctx, int64_t total,
int64_t grain, int32_t threads)`."""
STOP_VARIABLE = "tcopt_stop"
"""The i32 that is not 0 when a run is to end: less than 0 if memory of so many KiB was lacking."""

THREADS_VARIABLE = "tcopt_num_threads"
"""The i32 that says how many threads a parallel loop may use; 0 leaves it to the pool."""

SET_THREADS_SYMBOL = "tcopt_set_threads"
"""`void tcopt_set_threads(int32_t)`, of libraries and objects; 0 is the default."""

SPIN_NS = 100_000
"""How long a thread that waits looks for work before it sleeps. Shorter than a time slice, so
that spinning never keeps a busy core for long; longer than what lies between the parallel
loops of a model, and than it takes to wake a thread."""

_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "i386": 240, "i686": 240}
"""The number of Linux's system call `futex`."""

_PAUSES = {
    "x86_64": ("void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"),
    "aarch64": ("void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)"),
}
_NO_PAUSE = ("void @llvm.donothing()", "declare void @llvm.donothing()")

_AT_FORK = {
    "pthread_atfork": """
declare i32 @pthread_atfork(ptr, ptr, ptr)
define internal void @pool.at_fork(ptr %child) nounwind {
  %status = call i32 @pthread_atfork(ptr null, ptr null, ptr %child)
  ret void
}
""",
    "__register_atfork": """
declare i32 @__register_atfork(ptr, ptr, ptr, ptr)
define internal void @pool.at_fork(ptr %child) nounwind {
  %status = call i32 @__register_atfork(ptr null, ptr null, ptr %child, ptr null)
  ret void
}
""",
}
"""How to have a function called in the child of a fork. glibc's `pthread_atfork` is for code
that is linked; code loaded by other means calls what that calls."""


def pool_text(
    target: CpuTarget,
    *,
    linkage: str = "weak hidden",
    at_fork: str = "pthread_atfork",
    sleep: str | None = None,
) -> str:
    """LLVM IR of the pool.

    Args:
        linkage: of the functions others call.
        at_fork: `pthread_atfork`, or glibc's `__register_atfork`.
        sleep: `linux` or `posix`, by default as the target's system has it.
    """
    triple = target.triple
    futex = _FUTEX.get(target.machine)
    linux = "linux" in triple
    if sleep is None:
        sleep = "linux" if linux and futex is not None else "posix"
    call, declaration = _PAUSES.get(target.machine, _NO_PAUSE)
    pause = f"""
{declaration}
define internal void @pool.pause() nounwind {{
  call {call}
  ret void
}}
"""
    parts = [_source("pool"), _source(sleep), _AT_FORK[at_fork], pause]
    body = Template("\n".join(parts)).substitute(
        linkage=linkage,
        spin=SPIN_NS,
        futex=futex,
        setmask=2 if linux else 3,
        clock=1 if linux else 6,
        online=84 if linux else 58,
    )
    return f'target datalayout = "{data_layout(target)}"\ntarget triple = "{triple}"\n{body}'


def setting_text() -> str:
    """LLVM IR of a library's own variables, and the functions that set them."""
    return _source("setting")


def interrupt_text(target: CpuTarget) -> str:
    """LLVM IR of the handler of Ctrl-C in front of Python's."""
    head = f'target datalayout = "{data_layout(target)}"\ntarget triple = "{target.triple}"\n'
    return head + _source("interrupt")


@cache
def pool_objects(target: CpuTarget) -> tuple[bytes, bytes]:
    """Object code for linking with parallel loops: the pool, and the number of threads."""
    texts = pool_text(target), setting_text()
    pool, setting = (assemble_object(text, target) for text in texts)
    return pool, setting


def _source(name: str) -> str:
    return (Path(__file__).parent / f"{name}.ll").read_text(encoding="utf-8")
