"""Insufficient memory is a typed error everywhere; forks do not deadlock on other threads."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import tcopt
from programs.kernel_modules import parse_kernel
from tcopt.backends.llvm.module import emit_module
from tcopt.support.processes.threads import has_room, map_side_by_side

pytestmark = pytest.mark.nightly

_COMMON = """
import os, resource, sys, threading
import numpy as np, onnx.parser, tcopt
from tcopt.support.errors import ResourceError

def model(text):
    return onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21]>' + text)

def limit(mib):
    pages = int(open("/proc/self/statm").read().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + (mib << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))

def expect(action):
    try:
        action()
        print("done")
    except ResourceError as error:
        print(error)

PRODUCT = "g (float[600, 600] x) => (float[600, 600] y) { y = MatMul(x, x) }"
EXPAND = '''g (float[64, 1] x) => (float[64, 1000000] y) <int64[2] s = {64, 1000000}>
  { y = Expand(x, s) }'''
SOFTMAX = '''g (float[6000, 1] x, float[1, 6000] z) => (float[6000, 1] y)
  { e = Mul(x, z) f = Softmax<axis=0>(e) y = MatMul(f, x) }'''
column = {"x": np.ones((64, 1), np.float32)}
square = {"x": np.ones((600, 600), np.float32)}
tcopt.compile(model(EXPAND.replace("1000000", "10")), cache=False).run(column)
"""


def run(script: str, timeout: float = 100) -> str:
    """Return the output of a Python program, which must end by itself."""
    done = subprocess.run(
        [sys.executable, "-c", _COMMON + script],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout


@pytest.mark.parametrize(
    ("script", "size"),
    [
        ("m = tcopt.compile(model(EXPAND), cache=False)\nlimit(50)\nexpect(lambda: m.run(column))",
         "24[45]. MiB"),
        ("tcopt.compile(model(SOFTMAX.replace('6000', '60')), cache=False)\nlimit(60)\n"
         "expect(lambda: tcopt.compile(model(SOFTMAX), cache=False))", "137. MiB"),
        ("limit(8)\nexpect(lambda: tcopt.compile(model(PRODUCT), cache=False))", r"\d+ MiB"),
    ],
    ids=["results", "workspace", "code"],
)  # fmt: skip
def test_lacking_memory_is_told_with_its_size(script: str, size: str) -> None:
    printed = run(script)
    assert printed.startswith("out-of-memory: ")
    assert re.search(size, printed)


def test_threads_and_their_buffers_are_done_without_or_told() -> None:
    """For every memory limit, each run is correct or raises a typed error."""
    printed = run(
        """
m = tcopt.compile(model(PRODUCT), cache=False)
m.threads = 8
m.program._pools[0].take()
for mib in range(2, 60, 6):
    if not (child := os.fork()):
        limit(mib)
        expect(lambda: m.run(square))
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, mib
"""
    )
    lines = printed.splitlines()
    assert len(lines) == 10
    assert all(re.match(r"done|out-of-memory: .*\d+ (KiB|MiB)|out-of-memory", x) for x in lines)
    assert "done" in lines


def test_a_fork_beside_running_threads_can_run_and_compile() -> None:
    """A fork works while other threads hold the locks of the model, the pool and LLVM."""
    printed = run(
        """
m = tcopt.compile(model(PRODUCT), cache=False)
m.threads = 2
over = threading.Event()
def work():
    while not over.is_set():
        m.run(square)
def compiles():
    while not over.is_set():
        tcopt.compile(model("g (float[8] x) => (float[8] y) { y = Exp(x) }"), cache=False)
threads = [threading.Thread(target=work) for _ in range(2)] + [threading.Thread(target=compiles)]
for thread in threads:
    thread.start()
m.run(square)
for turn in range(12):
    if not (child := os.fork()):
        import signal
        signal.alarm(40)
        ok = (m.run(square)[0] == 600).all()
        if turn % 4 == 0:
            text = "g (float[9] x) => (float[9] y) { y = Neg(x) }"
            other = tcopt.compile(model(text), cache=False)
            ok = ok and other.run({"x": np.ones(9, np.float32)})[0].sum() == -9
        os._exit(0 if ok else 3)
    assert os.waitpid(child, 0)[1] == 0, turn
over.set()
for thread in threads:
    thread.join()
print("fine")
"""
    )
    assert printed == "fine\n"


ALLOCATION = """
func.func @k(%n: index, %x: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %a = memref.alloc() : memref<1048576xf32>
    %b = memref.alloc() : memref<2097152xf32>
    %v = memref.load %x[%c0] : memref<4xf32>
    memref.store %v, %a[%c0] : memref<1048576xf32>
    memref.store %v, %b[%c0] : memref<2097152xf32>
    memref.dealloc %b : memref<2097152xf32>
    memref.dealloc %a : memref<1048576xf32>
  }
  func.return
}
"""


def test_what_is_allocated_is_freed_when_the_next_allocation_fails() -> None:
    text = emit_module(parse_kernel(ALLOCATION))
    stops = re.findall(r"^stopped\.\d+:\n((?:  call void @free.*\n)*)  ret void", text, re.M)
    assert sorted(stop.count("@free") for stop in stops) == [0, 1]
    assert text.count("store atomic i32 -") == 2


def test_work_is_done_with_and_without_threads() -> None:
    assert has_room(1)
    assert not has_room(1 << 40)
    for threads in (1, 3, 1 << 40):
        assert map_side_by_side(lambda n: n * n, range(5), threads) == [0, 1, 4, 9, 16]
    with pytest.raises(ZeroDivisionError):
        map_side_by_side(lambda n: 1 // n, [1, 0], 2)


def test_models_are_not_kept_for_forks() -> None:
    import gc
    import weakref

    import onnx.parser

    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[8] x) => (float[8] y) { y = Neg(x) }'
    model = tcopt.compile(onnx.parser.parse_model(text))
    seen = weakref.ref(model)
    del model
    gc.collect()
    assert seen() is None
