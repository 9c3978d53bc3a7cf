"""Runs that are interrupted: time limits, handles, Ctrl-C."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import onnx.parser
import pytest

import tcopt
from tcopt.backends.llvm.stop_flag import StopFlag
from tcopt.support.errors import CancelledError, DeadlineError, InputError, TcoptError

Feeds = dict[str, np.ndarray]


def compiled(signature: str, body: str, **options) -> tcopt.Model:
    text = f'<ir_version: 10, opset_import: ["" : 21]>\ng {signature} {{ {body} }}'
    return tcopt.compile(onnx.parser.parse_model(text), **options)


STEPS = """(float[16384] x) => (float[16384] y) <int64 n = {3000000}, bool c = {1}> {
  y = Loop(n, c, x) <body = b (int64 i, bool k, float[16384] s) => (bool k2, float[16384] t) {
    k2 = Identity(k) t = Cos(s) }> }"""


@pytest.fixture(scope="module")
def steps() -> tuple[tcopt.Model, Feeds]:
    """A model with millions of calls of a short kernel."""
    model = tcopt.compile(
        onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\ng {STEPS}')
    )
    return model, {"x": np.ones(16384, np.float32)}


@pytest.fixture(scope="module")
def product() -> tuple[tcopt.Model, Feeds]:
    """A model with one long call."""
    model = compiled(
        "(float[2000, 2500] x, float[2500, 3000] w) => (float[2000, 3000] y)", "y = MatMul(x, w)"
    )
    shapes = {"x": (2000, 2500), "w": (2500, 3000)}
    return model, {name: np.ones(shape, np.float32) for name, shape in shapes.items()}


def seconds(run: Callable[[], object], expected: type[TcoptError]) -> float:
    """Return the time until a run raises an error."""
    start = time.monotonic()
    with pytest.raises(expected):
        run()
    return time.monotonic() - start


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_timeout_ends_a_long_kernel(product: tuple[tcopt.Model, Feeds], threads: int) -> None:
    model, feeds = product
    model.threads = threads
    start = time.monotonic()
    (whole,) = model.run(feeds)
    full = time.monotonic() - start
    took = seconds(lambda: model.run(feeds, timeout=full / 20), DeadlineError)
    assert took < full * 0.7
    (again,) = model.run(feeds, timeout=1000)
    np.testing.assert_array_equal(again, whole)
    assert (whole == 2500).all()


def test_a_timeout_ends_a_long_list_of_kernels(steps: tuple[tcopt.Model, Feeds]) -> None:
    model, feeds = steps
    assert seconds(lambda: model.run(feeds, timeout=0.05), DeadlineError) < 1


def test_a_handle_ends_runs_from_another_thread(steps: tuple[tcopt.Model, Feeds]) -> None:
    model, feeds = steps
    handle = tcopt.Cancellation()
    threading.Timer(0.05, handle.cancel).start()
    assert seconds(lambda: model.run(feeds, cancellation=handle), CancelledError) < 1
    assert handle.cancelled
    # Later runs with the same handle end at once; runs with another are not affected.
    small = compiled("(float[4] x) => (float[4] y)", "y = Relu(x)")
    four = {"x": np.ones(4, np.float32)}
    with pytest.raises(CancelledError, match=r"^cancelled: the run was cancelled; "):
        small.run(four, cancellation=handle)
    assert small.run(four, cancellation=tcopt.Cancellation())[0].sum() == 4


def test_waiting_for_another_run_counts(steps: tuple[tcopt.Model, Feeds]) -> None:
    model, feeds = steps
    handle, outcome = tcopt.Cancellation(), []

    def other() -> None:
        try:
            model.run(feeds, cancellation=handle)
        except CancelledError as error:
            outcome.append(error.code)

    thread = threading.Thread(target=other)
    thread.start()
    try:
        assert seconds(lambda: model.run(feeds, timeout=0.1), DeadlineError) < 1
    finally:
        handle.cancel()
        thread.join(10)
    assert outcome == ["cancelled"]


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "1"])
def test_what_is_no_time_is_refused(timeout: object) -> None:
    model = compiled("(float[4] x) => (float[4] y)", "y = Relu(x)")
    with pytest.raises(InputError, match="a timeout should be a number of seconds above 0"):
        model.run({"x": np.ones(4, np.float32)}, timeout=timeout)


def test_stages_end_too() -> None:
    """The stage after a data-dependent shape."""
    model = compiled(
        "(float[16384] x) => (float[?] y)",
        """i = NonZero(x) a = Shape(i) r = Squeeze(i) z = Gather<axis=0>(x, r)
        n = Constant<value = int64[1] {3000000}>() c = Constant<value = bool[1] {1}>()
        y = Loop(n, c, z) <body = b (int64 k, bool l, float[p] s) => (bool m, float[p] t) {
          m = Identity(l) t = Cos(s) }>""",
    )
    feeds = {"x": np.ones(16384, np.float32)}
    with pytest.raises(DeadlineError):
        model.run(feeds, timeout=1.0)


def test_a_stale_signal_does_no_harm() -> None:
    """A stop request made while nothing runs is cleared when a run starts."""
    model = compiled("(float[4, 4] x) => (float[4, 4] y)", "a = Softmax(x) y = MatMul(a, x)")
    feeds = {"x": np.eye(4, dtype=np.float32)}
    (expected,) = model.run(feeds)
    for _ in range(3):
        model.program.entry.stop.set()
        (actual,) = model.run(feeds)
        np.testing.assert_array_equal(actual, expected)


def test_variables_are_used_again() -> None:
    first = StopFlag()
    address = first.address
    first.set()
    del first
    assert address in {StopFlag().address for _ in range(1)}


CTRL_C = f"""
import os, signal, sys, threading, time
import numpy as np, onnx.parser, tcopt

def interrupted(action):
    # From a process, as a terminal does: a thread of ours would need the interpreter.
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    try:
        action()
        return "done", time.monotonic() - start
    except KeyboardInterrupt:
        return "interrupted", time.monotonic() - start

text = '''<ir_version: 10, opset_import: ["" : 21]>
g {STEPS}'''
long = tcopt.compile(onnx.parser.parse_model(text))
text = text.replace("3000000", "3000")
short = tcopt.compile(onnx.parser.parse_model(text))
feeds = {{"x": np.ones(16384, np.float32)}}
for turn in range(3):
    what, took = interrupted(lambda: long.run(feeds))
    assert what == "interrupted" and took < 1.5, (what, took)
    # Somebody else's handler, and Python's again, as asyncio has it.
    signal.signal(signal.SIGINT, signal.signal(signal.SIGINT, lambda *_: None))
expected = short.run(feeds)[0]
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(1))
threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
while not seen:
    assert (short.run(feeds)[0] == expected).all()
assert (short.run(feeds)[0] == expected).all()
print("fine")
"""


def test_ctrl_c_ends_a_run_at_once() -> None:
    """A signal handler that returns lets the run finish with its result."""
    done = subprocess.run(
        [sys.executable, "-c", CTRL_C], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


@pytest.mark.nightly
def test_the_command_has_a_limit(run_tool, tmp_path) -> None:
    path = tmp_path / "steps.onnx"
    text = f'<ir_version: 10, opset_import: ["" : 21]>\ng {STEPS}'
    onnx.save(onnx.parser.parse_model(text), path)
    done = run_tool("tcopt-run", path, "--timeout", "0.1")
    assert done.returncode == 1
    assert "timeout: the run took longer than its 0.1 s" in done.stderr
