"""Cost of a parallel region, and speed-up of a loop: our thread pool against GNU OpenMP.

    python benchmarks/threads.py [--threads 2] [--work 1 4 16 64 256]

The empty region is the time of a region without work. Then regions of a given time on one thread,
16 iterations each, run back to back, or after a pause in which the caller works alone, as between
the parallel loops of a model. All times are minima.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable

import llvmlite.binding as llvm

from tcopt.backends.llvm.machine.host import host_target
from tcopt.backends.llvm.machine.machine import assemble_object, new_linker
from tcopt.backends.llvm.pool.process import pool_address
from tcopt.support.processes.cores import default_threads

_ITERATIONS = 16
_REPEATS = 300
_PAUSE_US = 20.0

# Dependent multiplications take the same time on every thread.
_CODE = """
declare void @GOMP_parallel(ptr, ptr, i32, i32)

define double @multiply(i64 %count) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %up, %next ]
  %x = phi double [ 1.0, %entry ], [ %y, %next ]
  %y = fmul double %x, 1.0
  %up = add i64 %i, 1
  %more = icmp ult i64 %up, %count
  br i1 %more, label %next, label %done
done:
  ret double %y
}

; ctx: the number of multiplications in an iteration.
define void @task(ptr %ctx, i64 %begin, i64 %end) {
entry:
  %count = load i64, ptr %ctx
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %done, label %next
next:
  %i = phi i64 [ %begin, %entry ], [ %up, %next ]
  %x = call double @multiply(i64 %count)
  %up = add i64 %i, 1
  %more = icmp ult i64 %up, %end
  br i1 %more, label %next, label %done
done:
  ret void
}

; The signature of tcopt_parallel on GNU OpenMP: threads claim iterations off a counter.
define void @claim(ptr %region) {
entry:
  %total.p = getelementptr i64, ptr %region, i64 1
  %fn.p = getelementptr i64, ptr %region, i64 2
  %ctx.p = getelementptr i64, ptr %region, i64 3
  %total = load i64, ptr %total.p
  %fn = load ptr, ptr %fn.p
  %ctx = load ptr, ptr %ctx.p
  br label %next
next:
  %i = atomicrmw add ptr %region, i64 1 monotonic
  %more = icmp ult i64 %i, %total
  br i1 %more, label %run, label %done
run:
  %up = add i64 %i, 1
  call void %fn(ptr %ctx, i64 %i, i64 %up)
  br label %next
done:
  ret void
}
define void @openmp(ptr %fn, ptr %ctx, i64 %total, i64 %grain, i32 %threads) {
  %region = alloca [4 x i64], align 64
  %total.p = getelementptr i64, ptr %region, i64 1
  %fn.p = getelementptr i64, ptr %region, i64 2
  %ctx.p = getelementptr i64, ptr %region, i64 3
  store i64 0, ptr %region
  store i64 %total, ptr %total.p
  store ptr %fn, ptr %fn.p
  store ptr %ctx, ptr %ctx.p
  call void @GOMP_parallel(ptr @claim, ptr %region, i32 %threads, i32 0)
  ret void
}

; Opens regions one after the other, with multiplications of the caller's between them.
define void @drive(ptr %parallel, i64 %count, i32 %threads, i64 %rounds, i64 %between) {
entry:
  %ctx = alloca i64
  store i64 %count, ptr %ctx
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %up, %next ]
  call void %parallel(ptr @task, ptr %ctx, i64 ITERATIONS, i64 1, i32 %threads)
  %x = call double @multiply(i64 %between)
  %up = add i64 %i, 1
  %more = icmp ult i64 %up, %rounds
  br i1 %more, label %next, label %done
done:
  ret void
}
"""

_DRIVE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Our thread pool beside GNU OpenMP.")
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--work", type=float, nargs="+", default=[1, 4, 16, 64, 256])
    args = parser.parse_args()
    drive, pools = load()
    rate = calibrate(drive, pools["tcopt"])
    for name, parallel in pools.items():
        empty = measure(lambda: drive(parallel, 0, args.threads, 100, 1), 100)  # noqa: B023
        print(f"{name:8} {args.threads} threads  empty region {empty:6.2f} us")
    between = int(_PAUSE_US * rate)
    print(
        f"work us  speed-up: {'':4}".ljust(24)
        + "".join(f"{n:>10}{'after pause':>14}" for n in pools)
    )
    for work in args.work:
        count = int(work * rate / _ITERATIONS)
        cells = [
            speedup(drive, p, count, args.threads, b) for p in pools.values() for b in (1, between)
        ]
        print(
            f"{work:7.0f}".ljust(24)
            + "".join(f"{c:10.2f}" if i % 2 == 0 else f"{c:14.2f}" for i, c in enumerate(cells))
        )


def load() -> tuple[Callable[..., None], dict[str, int]]:
    """Return the driver, and the addresses of the runtimes by name."""
    pools = {"tcopt": pool_address()}
    library = llvm.JITLibraryBuilder()
    code = _CODE.replace("ITERATIONS", str(_ITERATIONS))
    library.add_object_img(assemble_object(code, host_target()))
    openmp = _openmp_address()
    library.import_symbol("GOMP_parallel", openmp or pools["tcopt"])
    for symbol in ("drive", "openmp"):
        library.export_symbol(symbol)
    linker = new_linker()
    loaded = library.link(linker, "benchmark")
    if openmp:
        pools["libgomp"] = loaded["openmp"]
    drive = _DRIVE(loaded["drive"])
    loaded.detach()
    linker.detach()
    return drive, pools


def _openmp_address() -> int | None:
    try:
        return ctypes.cast(ctypes.CDLL("libgomp.so.1").GOMP_parallel, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None


def measure(run: Callable[[], None], rounds: int) -> float:
    """Return the minimum microseconds of one of `rounds` regions."""
    run()
    times: list[float] = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) / rounds * 1e6


def calibrate(drive: Callable[..., None], parallel: int) -> float:
    """Return the number of multiplications per microsecond on one thread."""
    count = 10_000
    return _ITERATIONS * count / measure(lambda: drive(parallel, count, 1, 1, 1), 1)


def speedup(
    drive: Callable[..., None], parallel: int, count: int, threads: int, between: int
) -> float:
    """Return the speed-up of regions on several threads, excluding the time between them."""
    rounds = 8
    alone = measure(lambda: drive(parallel, 0, 1, rounds, between), rounds) if between > 1 else 0.0
    one, many = (
        measure(lambda: drive(parallel, count, n, rounds, between), rounds) - alone  # noqa: B023
        for n in (1, threads)
    )
    return one / many


if __name__ == "__main__":
    main()
