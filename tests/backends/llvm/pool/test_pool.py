"""The thread pool runs every iteration exactly once, for any caller and number of threads."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import get_native_id

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from running.examples import examples
from tcopt.backends.llvm.machine.host import host_target
from tcopt.backends.llvm.machine.machine import (
    assemble_object,
    assemble_text,
    new_linker,
    parse_llvm,
)
from tcopt.backends.llvm.pool import generate
from tcopt.backends.llvm.pool.process import load_pool, pool_address
from tcopt.backends.llvm.pool.text import pool_object, pool_text
from tcopt.support.processes import cores
from tcopt.support.processes.cores import default_threads, usable_cores
from tcopt.targets.cpu import MACHINES

# count: increments each cell of its range. nested: opens a region of 8 for each iteration. sizes:
# writes the size of its range to the range's first cell. fault: waits in the given thread, and
# writes to address 0 in any other.
_FOLDERS = [os.path.dirname(__file__), str(Path(__file__).parents[3])]
"""Import path of this module and its helpers, for scripts."""

_TASKS = """
define void @count(ptr %cells, i64 %begin, i64 %end) {
entry:
  br label %next
next:
  %i = phi i64 [ %begin, %entry ], [ %up, %next ]
  %p = getelementptr i32, ptr %cells, i64 %i
  %old = load i32, ptr %p
  %new = add i32 %old, 1
  store i32 %new, ptr %p
  %up = add i64 %i, 1
  %more = icmp ult i64 %up, %end
  br i1 %more, label %next, label %done
done:
  ret void
}
define void @nested(ptr %ctx, i64 %begin, i64 %end) {
entry:
  %cells.p = getelementptr ptr, ptr %ctx, i64 1
  %parallel = load ptr, ptr %ctx
  %cells = load ptr, ptr %cells.p
  br label %next
next:
  %i = phi i64 [ %begin, %entry ], [ %up, %next ]
  %row = getelementptr [8 x i32], ptr %cells, i64 %i
  call void %parallel(ptr @count, ptr %row, i64 8, i64 1, i32 2)
  %up = add i64 %i, 1
  %more = icmp ult i64 %up, %end
  br i1 %more, label %next, label %done
done:
  ret void
}
define void @sizes(ptr %cells, i64 %begin, i64 %end) {
  %size = sub i64 %end, %begin
  %short = trunc i64 %size to i32
  %p = getelementptr i32, ptr %cells, i64 %begin
  store i32 %short, ptr %p
  ret void
}
declare ptr @pthread_self()
define void @fault(ptr %opener, i64 %begin, i64 %end) {
entry:
  %self = call ptr @pthread_self()
  %same = icmp eq ptr %self, %opener
  br i1 %same, label %wait, label %write
wait:
  fence seq_cst
  br label %wait
write:
  store volatile i32 0, ptr null
  ret void
}
"""
_PARALLEL = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32
)


class Tasks:
    """The compiled functions of `_TASKS`."""

    def __init__(self) -> None:
        library = llvm.JITLibraryBuilder()
        library.add_object_img(assemble_object(_TASKS, host_target()))
        names = ("count", "nested", "sizes", "fault")
        for name in names:
            library.export_symbol(name)
        self._linker = new_linker()
        self._loaded = library.link(self._linker, "tasks")
        self.count, self.nested, self.sizes, self.fault = (self._loaded[name] for name in names)


@cache
def tasks() -> Tasks:
    return Tasks()


@cache
def pool(sleep: str):
    return _PARALLEL(pool_address() if sleep == "default" else load_pool(sleep))


@pytest.fixture(params=["default", "posix"])
def parallel(request):
    # Load the tasks here: concurrent threads would each load them, and drop all but one.
    tasks()
    return pool(request.param)


def ranges(cells: np.ndarray) -> list[int]:
    """Return the range sizes recorded by `sizes`, which must be contiguous."""
    found: list[int] = []
    while sum(found) < len(cells):
        found.append(int(cells[sum(found)]))
        assert found[-1] > 0
    assert np.count_nonzero(cells) == len(found)
    return found


@settings(max_examples=examples(80), deadline=None)
@given(total=st.integers(0, 3000), grain=st.integers(1, 4000), threads=st.integers(0, 9))
def test_ranges_cover_all_iterations_and_hold_grains(total, grain, threads):
    cells = np.zeros(total, np.int32)
    pool("default")(tasks().sizes, cells.ctypes.data, total, grain, threads)
    if total == 0:
        return
    sizes = ranges(cells)
    if threads == 1 or total <= grain:
        assert sizes == [total]
    # Only the last range of each slot may be shorter.
    assert sum(size < grain for size in sizes) <= max(threads, default_threads())


def test_many_regions_of_random_size(parallel):
    generator = np.random.default_rng(0)
    cells = np.zeros(5000, np.int32)
    expected = np.zeros(5000, np.int32)
    for _ in range(4000):
        total = int(generator.integers(1, 60) if generator.random() < 0.8 else 5000)
        threads = int(generator.integers(1, 9))
        parallel(tasks().count, cells.ctypes.data, total, int(generator.integers(1, 5)), threads)
        expected[:total] += 1
    np.testing.assert_array_equal(cells, expected)


def test_more_threads_than_there_are_slots():
    cells = np.zeros(1000, np.int32)
    for _ in range(3):
        pool("default")(tasks().count, cells.ctypes.data, 1000, 1, 1000)
    assert (cells == 3).all()


def test_totals_beyond_32_bits_run_whole():
    """If all slots are taken, the caller runs its iterations alone."""
    seen: list[tuple[int, int]] = []
    note = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        lambda _, begin, end: seen.append((begin, end))
    )
    pool("default")(ctypes.cast(note, ctypes.c_void_p), None, 1 << 33, 1, 4)
    assert seen == [(0, 1 << 33)]


def test_regions_from_several_threads_at_once(parallel):
    """One thread has the pool at a time; the others run their iterations alone."""

    def work(seed: int) -> np.ndarray:
        cells = np.zeros(300, np.int32)
        for _ in range(2000):
            parallel(tasks().count, cells.ctypes.data, 300, 1, 1 + seed % 4)
        return cells

    with ThreadPoolExecutor(6) as executor:
        for cells in executor.map(work, range(6)):
            assert (cells == 2000).all()


def test_regions_within_a_region(parallel):
    cells = np.zeros((50, 8), np.int32)
    address = ctypes.cast(parallel, ctypes.c_void_p).value
    context = (ctypes.c_void_p * 2)(address, cells.ctypes.data)
    for _ in range(100):
        parallel(tasks().nested, ctypes.addressof(context), 50, 1, 4)
    assert (cells == 100).all()


def test_sleeping_workers_are_woken(parallel):
    """In each region, workers have slept since the last one, and one of them joins."""
    seen: set[int] = set()
    note = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        lambda *_: (seen.add(get_native_id()), _rest())[0]
    )
    for _ in range(20):
        seen.clear()
        for _ in range(50):
            parallel(ctypes.cast(note, ctypes.c_void_p), None, 8, 1, 2)
            if len(seen) > 1:
                break
        assert len(seen) == 2
        _rest()


def _rest() -> None:
    """Let other threads run, and idle workers fall asleep."""
    time.sleep(0.002)


_FORKS = """
import os, sys, threading
sys.path[:0] = {folders!r}
from test_pool import np, pool, tasks
parallel = pool({sleep!r})
def hammer(rounds, stop=None):
    cells = np.zeros(64, np.int32)
    for done in range(1, rounds + 1):
        parallel(tasks().count, cells.ctypes.data, 64, 1, 3)
        if stop is not None and stop.is_set():
            break
    return bool((cells == done).all())
hammer(1)  # loads what is needed before any fork
stop = threading.Event()
other = threading.Thread(target=hammer, args=(10**9, stop))
other.start()
good = True
for _ in range(5):
    child = os.fork()
    if child == 0:
        os._exit(0 if hammer(300) else 1)
    good &= os.waitpid(child, 0)[1] == 0 and hammer(50)
stop.set()
other.join()
sys.exit(not good)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("sleep", ["default", "posix"])
def test_a_forked_child_has_a_pool_of_its_own(sleep):
    """Fork while another thread has an open region."""
    script = _FORKS.format(folders=_FOLDERS, sleep=sleep)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


_ONE_CORE = """
import os, sys
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
sys.path[:0] = {folders!r}
from test_pool import np, pool, tasks
parallel = pool("linux")
def switches():
    found = 0
    for task in os.listdir("/proc/self/task"):
        for line in open(f"/proc/self/task/{{task}}/status"):
            if line.startswith("voluntary_ctxt_switches"):
                found += int(line.split()[1])
    return found
cells = np.zeros(100_000, np.int32)
parallel(tasks().count, cells.ctypes.data, cells.size, 1000, 2)
before = switches()
for _ in range(2000):
    parallel(tasks().count, cells.ctypes.data, cells.size, 1000, 2)
print(switches() - before)
sys.exit(not (cells == 2001).all())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")
def test_a_worker_leaves_the_core_to_the_opener():
    """On a single core, workers are not woken for each region."""
    script = _ONE_CORE.format(folders=_FOLDERS)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True)
    assert int(done.stdout) < 200


_FAULT = """
import faulthandler, sys, threading
faulthandler.enable()
sys.path[:0] = {folders!r}
from test_pool import pool, tasks
pool({sleep!r})(tasks().fault, threading.get_ident(), 2, 1, 2)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts on Linux's signals")
@pytest.mark.parametrize("sleep", ["linux", "posix"])
def test_a_fault_in_a_thread_is_reported(sleep):
    """Worker threads block the process's signals, but not those of their own faults."""
    script = _FAULT.format(folders=_FOLDERS, sleep=sleep)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in done.stderr


@pytest.mark.parametrize("sleep", ["linux", "posix"])
@pytest.mark.parametrize("at_fork", ["pthread_atfork", "__register_atfork"])
@pytest.mark.parametrize("name", MACHINES)
def test_every_target_has_a_pool(name, at_fork, sleep):
    parse_llvm(pool_text(MACHINES[name], at_fork=at_fork, sleep=sleep))


@pytest.mark.skipif(
    shutil.which(generate.COMPILER) is None, reason=f"needs {generate.COMPILER}, on any machine"
)
@pytest.mark.parametrize("name", generate.FILES)
def test_the_text_is_made_of_the_source(name):
    """If this fails, run `python -m tcopt.backends.llvm.pool.generate`."""
    stored = (generate.FOLDER / f"{name}.ll").read_text(encoding="utf-8")
    assert generate.generate(name) == stored


def test_waiting_threads_pause():
    x86, arm = (
        assemble_text(pool_text(MACHINES[name]), MACHINES[name])
        for name in ("haswell", "cortex-a72")
    )
    assert re.search(r"\bpause\b", x86) and re.search(r"\b(yield|hint\t#1)\b", arm)


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_linked_pools_need_the_c_library_alone(tmp_path):
    file = tmp_path / "pool.o"
    file.write_bytes(pool_object(host_target()))
    listed = subprocess.run(["nm", "-u", file], capture_output=True, text=True, check=True)
    needed = {line.split()[-1] for line in listed.stdout.splitlines()}
    needed = {name for name in needed if not name.startswith(("pthread_", "_GLOBAL"))}
    assert needed <= {
        "atoi",
        "clock_gettime",
        "getenv",
        "memset",
        "nanosleep",
        "sched_getaffinity",
        "sched_getcpu",
        "sched_setaffinity",
        "sigdelset",
        "sigfillset",
        "syscall",
    }


@pytest.mark.parametrize(
    ("text", "expected"), [("3", 3), ("0", None), ("-2", None), ("many", None), ("", None)]
)
def test_environment_sets_the_number_of_threads(monkeypatch, text, expected):
    monkeypatch.setenv("TCOPT_NUM_THREADS", text)
    default_threads.cache_clear()
    try:
        assert default_threads() == (expected or usable_cores())
    finally:
        default_threads.cache_clear()


@pytest.mark.parametrize(
    ("quota", "count"),
    [("max 100000", None), ("100000 100000", 1), ("50000 100000", 1), ("garbage", None)],
)
def test_a_containers_quota_bounds_the_cores(monkeypatch, tmp_path, quota, count):
    available = len(os.sched_getaffinity(0))
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(cores, "_CPU_QUOTA", tmp_path / "cpu.max")
    usable_cores.cache_clear()
    try:
        assert usable_cores() == (count or available)
    finally:
        usable_cores.cache_clear()
