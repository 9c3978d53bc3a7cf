"""Native code in a separate process: accessible memory, and crashes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tcopt.support.errors import BackendError
from tcopt.support.processes.child_process import processor_time
from tcopt.tools.execution.native_process import (
    NativeFault,
    NativeProcess,
    ProcessBuffer,
    ProcessScalar,
    Scratch,
)

COPY = """define i64 @f(ptr %x, ptr %y, i64 %count, i64 %from) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %at = add i64 %i, %from
  %p = getelementptr float, ptr %x, i64 %at
  %q = getelementptr float, ptr %y, i64 %at
  %v = load float, ptr %p
  store float %v, ptr %q
  %next = add i64 %i, 1
  br label %head
end:
  ret i64 %count
}
"""
ENDLESS = """define void @f() {
entry:
  br label %entry2
entry2:
  br label %entry2
}
"""
ABORT = """declare void @abort()
define void @f() {
  call void @abort()
  ret void
}
"""


@pytest.fixture(scope="module")
def process():
    made = NativeProcess()
    yield made
    made.stop()


def copy(process: NativeProcess, count: int, start: int = 0, *, at_end: bool = True, **rights):
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    handle = process.load(COPY, ["f"])
    writable = rights.get("writable", True)
    result = process.call(
        handle,
        "f",
        [ProcessBuffer(x, False, "%x"), ProcessBuffer(y, writable, "%y"),
         ProcessScalar("i64", count), ProcessScalar("i64", start)],
        result="i64",
        at_end=at_end,
    )  # fmt: skip
    return result, y


@pytest.mark.parametrize("at_end", [True, False])
def test_runs(process: NativeProcess, at_end: bool) -> None:
    result, y = copy(process, 4, at_end=at_end)
    assert result == 4
    np.testing.assert_array_equal(y, [0, 1, 2, 3])


def test_a_read_behind_the_end_is_a_fault(process: NativeProcess) -> None:
    """The message names the buffer, and the next call starts a new process."""
    with pytest.raises(NativeFault, match="accesses memory 0 bytes after the end of %x"):
        copy(process, 5)
    assert copy(process, 4)[0] == 4


def test_an_access_in_front_is_a_fault(process: NativeProcess) -> None:
    with pytest.raises(NativeFault, match="accesses memory 4 bytes before %x"):
        copy(process, 1, -1, at_end=False)


def test_a_write_beside_a_buffer_is_a_fault(process: NativeProcess) -> None:
    """Writes before a buffer at the end of its page are detected too."""
    x, y = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    handle = process.load(COPY.replace("float, ptr %x, i64 %at", "float, ptr %x, i64 %i"), ["f"])
    arguments = [
        ProcessBuffer(x, False, "%x"),
        ProcessBuffer(y, True, "%y"),
        ProcessScalar("i64", 1),
    ]
    with pytest.raises(NativeFault, match="writes before %y"):
        process.call(handle, "f", [*arguments, ProcessScalar("i64", -2)], result="i64")


def test_a_write_to_what_is_read_only_is_a_fault(process: NativeProcess) -> None:
    with pytest.raises(NativeFault, match="writes to %y, which it may only read"):
        copy(process, 4, writable=False)


def test_a_run_that_does_not_end_is_a_fault(process: NativeProcess) -> None:
    handle = process.load(ENDLESS, ["f"])
    with pytest.raises(NativeFault, match=r"does not end within 0\.3 s"):
        process.call(handle, "f", [], limit=0.3)


PARENT = """
import sys
from tcopt.tools.execution.native_process import NativeProcess
process = NativeProcess()
handle = process.load(sys.argv[1], ["f"])
print(process.pid, flush=True)
process.call(handle, "f", [], limit=60)
"""


def test_endless_code_ends_with_the_process_that_wants_it() -> None:
    command = [sys.executable, "-c", PARENT, ENDLESS]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    before = processor_time(child)
    while (now := processor_time(child)) is not None and before is not None and now < before + 0.1:
        time.sleep(0.01)
    parent.kill()
    try:
        # The child has the stderr pipe too.
        parent.communicate(timeout=30)
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_an_abort_is_a_fault(process: NativeProcess) -> None:
    handle = process.load(ABORT, ["f"], ["abort"])
    with pytest.raises(NativeFault, match="SIGABRT"):
        process.call(handle, "f", [])


def test_wrong_text_is_an_error(process: NativeProcess) -> None:
    """The process survives an error in the text."""
    before = process.started
    with pytest.raises(BackendError):
        process.load("define what", ["f"])
    assert copy(process, 4)[0] == 4
    assert process.started <= before + 1


def test_buffers_that_share_memory_share_it(process: NativeProcess) -> None:
    whole = np.arange(6, dtype=np.float32)
    handle = process.load(COPY, ["f"])
    arguments = [ProcessBuffer(whole[:4], False, "%x"), ProcessBuffer(whole[1:5], True, "%y")]
    process.call(
        handle, "f", [*arguments, ProcessScalar("i64", 4), ProcessScalar("i64", 0)], result="i64"
    )
    np.testing.assert_array_equal(whole, [0, 0, 0, 0, 0, 5])


def test_scratch_memory_is_zero(process: NativeProcess) -> None:
    y = np.ones(4, np.float32)
    handle = process.load(COPY, ["f"])
    arguments = [
        Scratch(16),
        ProcessBuffer(y, True, "%y"),
        ProcessScalar("i64", 4),
        ProcessScalar("i64", 0),
    ]
    process.call(handle, "f", arguments, result="i64")
    np.testing.assert_array_equal(y, 0)


def test_imports_nothing_from_the_current_folder(tmp_path: Path) -> None:
    """A module there with the name of one of Python's is not imported."""
    for name in ("json.py", "ctypes.py", "llvmlite.py", "mmap.py"):
        (tmp_path / name).write_text("import os\nos.write(2, b'taken')\nos._exit(3)\n")
    program = (
        "import os, sys, tcopt.tools.execution.native_process as n\n"
        "import numpy as np\n"
        f"os.chdir({str(tmp_path)!r})\n"
        f"p = n.NativeProcess(); h = p.load({ENDLESS!r}, ['f']); print(h); p.stop()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "none")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "taken" not in done.stderr
