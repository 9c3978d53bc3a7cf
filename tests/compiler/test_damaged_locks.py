"""Randomly changed lock files: an entry applies or is skipped with an error."""

from __future__ import annotations

import re
from contextlib import suppress

import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from running.examples import examples
from tcopt.compiler.options import CompileOptions
from tcopt.compiler.passes import run_passes, shared_context
from tcopt.dialects.loop import FuncOp
from tcopt.schedules.api.apply import apply_sequence
from tcopt.schedules.tuning.lock_file import LockFile, parse_lock
from tcopt.support.errors import ScheduleError
from tcopt.support.syntax.parsing import TextParser
from tcopt.tuner.lock import LockWriter, TunedKernel
from tcopt.tuner.measure.building import build
from tcopt.tuner.tasks import Task, tasks_of

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
g (float[6,70] x, float[70, 20] w) => (float[6,20] y) { h = MatMul(x, w) y = Softmax(h) }"""


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Task]]:
    """Return the text of a lock file with schedules, and its tasks."""
    path = tmp_path_factory.mktemp("lock") / "model.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), path)
    tasks, writer = tasks_of(path, CompileOptions(target="cpu:haswell")), LockWriter(path)
    for task in tasks:
        writer.add_kernel(TunedKernel(task, build(task.text, task.phases).sequence))
    return writer.text(), tasks


def loops_of(task: Task) -> FuncOp:
    module = TextParser(shared_context(), task.te_text).parse_module()
    run_passes(module, "lower-te-to-loop")
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    function.detach()
    return function


def check(lock: LockFile, tasks: list[Task]) -> None:
    """Loaded entries verify, and their steps apply or are rejected."""
    for entry in lock.kernels.values():
        entry.sequence.verify()
        for task in tasks:
            if task.key == entry.workload and entry.has_steps:
                with suppress(ScheduleError):
                    apply_sequence(entry.sequence.clone(), loops_of(task))
    assert all(error.where and error.hint for error in lock.refused)


TOKEN = re.compile(r"%\w+|\"[^\"]*\"|-?\d+|[\w.]+|\S")
WORDS = ["-2", "-1", "0", "1", "3", "70", "2147483648", "9" * 30, '"x"', '"matmul"', "%x", "?", "[",
         "]", "{", "}", "%i, %i", "sched.fuse", "sched.unroll", "sched.sequence", "true", "1.5",
         "\0", "é", "[" * 500, "loc(unknown)"]  # fmt: skip


@given(data=st.data())
@settings(max_examples=examples(20))
def test_changed_tokens(tuned: tuple[str, list[Task]], data: st.DataObject):
    text, tasks = tuned
    start = text.index("sched.sequence")
    tokens = list(TOKEN.finditer(text, start))[:-1]
    for _ in range(data.draw(st.integers(1, 2))):
        token = data.draw(st.sampled_from(tokens))
        new = data.draw(
            st.one_of(st.sampled_from(WORDS), st.sampled_from(tokens).map(lambda m: m[0]))
        )
        text = text[: token.start()] + new + text[token.end() :]
        tokens = [t for t in tokens if t.end() <= token.start()] or tokens[:1]
    check(parse_lock(text, "m.tuned.mlir"), tasks)


@given(data=st.data())
@settings(max_examples=examples(10))
def test_moved_lines(tuned: tuple[str, list[Task]], data: st.DataObject):
    text, tasks = tuned
    lines = text.splitlines()
    first = next(n for n, line in enumerate(lines) if "sched.sequence" in line)
    one, other = (data.draw(st.integers(first + 1, len(lines) - 2)) for _ in range(2))
    match data.draw(st.sampled_from(["swap", "double", "drop"])):
        case "swap":
            lines[one], lines[other] = lines[other], lines[one]
        case "double":
            lines.insert(other, lines[one])
        case _:
            del lines[one]
    check(parse_lock("\n".join(lines), "m.tuned.mlir"), tasks)
