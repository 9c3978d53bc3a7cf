"""Lock files: found next to a model, applied, edited manually, and part of cache keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import tcopt
from tcopt.compiler.options import CompileOptions
from tcopt.compiler.tuned import find_lock, lock_beside
from tcopt.support.errors import InputError, ParsingError, ScheduleError, TcoptError
from tcopt.support.files.file_contents import content, digest_of_content
from tcopt.support.remarks import collect_slow
from tcopt.tuner.lock import LockWriter, TunedKernel
from tcopt.tuner.measure.building import build
from tcopt.tuner.tasks import Task, tasks_of

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
product (float[24, 40] x, float[40, 48] w) => (float[24, 48] y) {
  h = MatMul(x, w)
  y = Relu(h)
}"""
CPU = "cpu:haswell"
CHOICE = {"rows": 3, "vectors": 2}
"""Knobs that the rule leaves open; the others stay at their defaults."""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TCOPT_CACHE", raising=False)
    path = tmp_path / "product.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), path)
    return path


def the_task(model: Path) -> Task:
    tasks = tasks_of(model, CompileOptions(target=CPU))
    return next(task for task in tasks if "matmul" in task.name)


def choice_for(task: Task) -> dict[str, int | str]:
    """Return the current choice with some knobs changed."""
    default = build(task.text, task.phases)
    found = re.search(r"choice = \{(.*?)\}", default.sequence)
    assert found is not None
    choice: dict[str, int | str] = {}
    for part in found[1].split(", "):
        name, value = part.split(" = ")
        text = value.removesuffix(" : i64")
        choice[name] = text.strip('"') if text.startswith('"') else int(text)
    return choice | CHOICE


def write_lock(model: Path, *, with_steps: bool = True) -> tuple[Path, Task]:
    tasks, task = tasks_of(model, CompileOptions(target=CPU)), the_task(model)
    code = build(task.text, task.phases, "cpu-matmul", choice_for(task))
    writer = LockWriter(model.name)
    for each in tasks:
        same = each.key == task.key
        writer.add_kernel(TunedKernel(each, code.sequence if same else "", ns=2e3, default_ns=3e3))
    path = lock_beside(model)
    writer.write(path)
    if not with_steps:
        path.write_text(re.sub(r"\{\n    .*?\n  \}\n", "{\n  }\n", path.read_text(), flags=re.S))
    return path, task


def schedule_of(model: Path, **options: object) -> str:
    """Return the decision for the product, as explained."""
    compiled = tcopt.compile(str(model), CPU, **options)  # pyright: ignore
    return json.dumps(compiled.explain().as_json())


@pytest.mark.parametrize("with_steps", [True, False])
def test_a_lock_file_beside_the_model_is_obeyed(model: Path, with_steps: bool):
    assert "rows = 3" not in schedule_of(model)
    write_lock(model, with_steps=with_steps)
    told = schedule_of(model)
    assert "rows = 3, vectors = 2" in told
    # A difference is reported if the stored steps do not match those of the choice.
    assert ("changes from the default: rows" in told) == with_steps
    assert "rows = 3" not in schedule_of(model, tuned=False)


def test_the_tuned_model_gives_the_same_results(model: Path):
    feeds = {
        "x": np.random.default_rng(0).standard_normal((24, 40)).astype(np.float32),
        "w": np.random.default_rng(1).standard_normal((40, 48)).astype(np.float32),
    }
    plain = tcopt.compile(str(model), CPU).run(feeds)[0]
    write_lock(model)
    tuned = tcopt.compile(str(model), CPU).run(feeds)[0]
    np.testing.assert_allclose(tuned, plain, rtol=1e-5, atol=1e-5)


def test_a_lock_file_is_part_of_what_the_caches_know(model: Path):
    assert tcopt.compile(str(model), CPU).program.kernels_compiled
    path, _ = write_lock(model)
    tuned = tcopt.compile(str(model), CPU).program
    assert not tuned.cached and tuned.kernels_compiled == 1
    assert tcopt.compile(str(model), CPU).program.cached
    assert tcopt.compile(str(model), CPU, tuned=False).program.cached
    path.write_text(path.read_text() + "// another line\n")
    again = tcopt.compile(str(model), CPU).program
    assert not again.cached and not again.kernels_compiled


def test_models_of_open_shapes_keep_what_they_were_loaded_with(model: Path, tmp_path: Path) -> None:
    """Each shape is compiled on demand, whatever happened to the file since."""
    path, _ = write_lock(model)
    opened = tmp_path / "open.onnx"
    onnx.save(onnx.parser.parse_model(MODEL.replace("[24, ", "[N, ")), opened)
    loaded = tcopt.compile(str(opened), CPU, tuned=path)
    path.write_text("no lock file any more")
    for rows in (24, 7):
        feeds = {"x": np.ones((rows, 40), np.float32), "w": np.ones((40, 48), np.float32)}
        (found,) = loaded.run(feeds)
        np.testing.assert_allclose(found, np.full((rows, 48), 40.0))
    with pytest.raises(ParsingError, match="correct the line"):
        tcopt.compile(str(model), CPU, tuned=path)


def test_a_file_that_is_another_one_by_now_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tuned.mlir"
    path.write_text("one")
    digest = digest_of_content(path)
    path.write_text("two")
    assert content(path, digest) == b"one" and content(path) == b"two"
    for number in range(20):
        (tmp_path / "other").write_text(str(number))
        digest_of_content(tmp_path / "other")
    with pytest.raises(InputError, match="has changed since the model was loaded"):
        content(path, digest)


def test_steps_may_be_edited_by_hand(model: Path):
    path, _ = write_lock(model)
    before = path.read_text()
    path.write_text(re.sub(r" +sched\.vectorize .*\n", "", before))
    assert path.read_text() != before
    assert "not vectorised" in schedule_of(model)


def test_steps_that_do_not_apply_give_way_to_the_default(model: Path):
    path, _ = write_lock(model)
    path.write_text(path.read_text().replace('get_block "matmul"', 'get_block "mattmul"'))
    told = schedule_of(model)
    assert "its tuned schedule does not apply, so it has the default" in told
    assert "mattmul" in told


def test_locked_steps_have_to_apply(model: Path):
    path, _ = write_lock(model)
    path.write_text(path.read_text().replace('get_block "matmul"', 'get_block "mattmul"'))
    line = 1 + path.read_text()[: path.read_text().index('"mattmul"')].count("\n")
    with pytest.raises(ScheduleError, match=f"{path.name}:{line}"):
        tcopt.compile(str(model), CPU, locked=True)


def test_locked_needs_an_entry_for_every_kernel(model: Path):
    with pytest.raises(InputError, match=r"there is no lock file .*product.tuned.mlir"):
        tcopt.compile(str(model), CPU, locked=True)
    write_lock(model)
    tcopt.compile(str(model), CPU, locked=True)
    with pytest.raises(InputError, match=r"no entry for @\w+.*entries for 1 other target"):
        tcopt.compile(str(model), "cpu:skylake-avx512", locked=True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sched.get_block", "sched.get_blok", r"product.tuned.mlir:\d+:\d+"),
        ("tuned.version = 1", "tuned.version = 9", "lock file version 9"),
        ("tuned.version = 1", "other = 1", "is not a lock file"),
        ("tuned.workload =", "workload =", r"the entry has no tuned.workload.*tuned.mlir:\d+"),
        ("choice = {", "choice = {odd = 1.5 : f32, ", "neither an integer nor a string"),
        ('rule = "cpu-matmul", ', "", "but no rule"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_place_and_a_fix(
    model: Path, old: str, new: str, message: str
):
    path, _ = write_lock(model)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(TcoptError, match=message) as caught:
        tcopt.compile(str(model), CPU, locked=True)
    assert path.name in str(caught.value) and "tune the model again" in str(caught.value)


def test_an_entry_stands_once(model: Path):
    path, _ = write_lock(model)
    text = path.read_text()
    entry = text[text.index("  sched.sequence") : text.rindex("}")]
    path.write_text(text[: text.rindex("}")] + entry + "}\n")
    with pytest.raises(TcoptError, match="for the same kernel and target"):
        tcopt.compile(str(model), CPU, locked=True)
    assert "rows = 3" in schedule_of(model)


def test_a_file_is_named(model: Path, tmp_path: Path):
    path, _ = write_lock(model)
    other = path.rename(tmp_path / "other.mlir")
    assert "rows = 3" not in schedule_of(model)
    assert "rows = 3" in schedule_of(model, tuned=other)
    with pytest.raises(InputError, match=r"missing\.mlir"):
        tcopt.compile(str(model), CPU, tuned=tmp_path / "missing.mlir")


def test_a_model_in_memory_has_no_lock_file():
    assert find_lock(b"...", True) is None
    with pytest.raises(InputError, match="for a model in memory"):
        find_lock(b"...", True, locked=True)
    with pytest.raises(InputError, match="needs a lock file"):
        find_lock("model.onnx", False, locked=True)


def test_what_other_targets_have_is_kept(model: Path):
    path, task = write_lock(model)
    from tcopt.schedules.tuning.lock_file import read_lock
    from tcopt.tuner.lock import writer_for

    writer = writer_for(path, model.name, "another target")
    (other,) = (
        t
        for t in tasks_of(model, CompileOptions(target="cpu:skylake-avx512"))
        if t.name == task.name
    )
    writer.add_kernel(TunedKernel(other))
    writer.write(path)
    lock = read_lock(path)
    assert {(task.key, task.target_key), (other.key, other.target_key)} <= set(lock.kernels)
    assert lock.kernels[task.key, task.target_key].gain == 1.5
    assert "rows = 3" in schedule_of(model)


def lines_swapped(text: str) -> str:
    """Swap the first `sched.get_loops` with the line before it, which defines its operand."""
    lines = text.splitlines()
    at = next(n for n, line in enumerate(lines) if "sched.get_loops" in line)
    lines[at - 1], lines[at] = lines[at], lines[at - 1]
    return "\n".join(lines) + "\n"


DEEP = "[" * 3000 + "]" * 3000


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize(
    "change",
    [
        lines_swapped,
        lambda text: re.sub(r"by \[.*?\]", "by [?, -2]", text, count=1),
        lambda text: re.sub(r"by \[.*?\]", "by [?, 99999999999999999999]", text, count=1),
        lambda text: text.replace("choice = {", f"choice = {{deep = {DEEP}, ", 1),
        lambda text: text.replace('rule = "cpu-matmul"', "rule = 5 : i64", 1),
        lambda text: text.replace("sched.get_block", "sched.get_blok", 1),
        lambda text: text.replace('get_block "matmul"', "get_block 5", 1),
        lambda text: text[: text.index("sched.vectorize")],
    ],
)
def test_a_malformed_entry_gives_way_to_the_default(
    model: Path, change: Callable[[str], str]
) -> None:
    path, _ = write_lock(model)
    before = path.read_text()
    path.write_text(change(before))
    assert path.read_text() != before
    with collect_slow() as remarks:
        tcopt.compile(str(model), CPU)
    assert [r.by for r in remarks] == ["apply-tuning"]
    with pytest.raises(TcoptError):
        tcopt.compile(str(model), CPU, locked=True)
