"""Whole programs on disk: cache hits, misses, and corruption."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto

import tcopt
from models.light_models import random_inputs
from models.network import Network
from tcopt.compiler.content import hash_file, hash_source
from tcopt.compiler.program_cache import wait_for_writers
from tcopt.schedules.rules import rule as rules
from tcopt.support.errors import InputError
from tcopt.support.remarks import PlacementWarning, collect_remarks


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private cache that stores programs."""
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TCOPT_CACHE", "1")
    return tmp_path / "cache"


def dense(batch: int | str = 2, seed: int = 0) -> ModelProto:
    """y = softmax(x @ w + b) for x of [batch, 8]."""
    net = Network("dense", seed=seed)
    x = net.input("x", [batch, 8])
    return net.model(**{net.add("Softmax", net.gemm(x, 8, 40)): [batch, 40]})


def programs_in(folder: Path) -> list[Path]:
    wait_for_writers()
    return sorted(folder.rglob("*.program"))


def cached(*arguments: object, **options: object) -> bool:
    """Whether a compile is a cache hit."""
    return tcopt.compile(*arguments, **options).program.cached  # pyright: ignore


def test_a_second_compile_finds_the_program(folder, tmp_path):
    model = dense()
    first, second = tcopt.compile(model), tcopt.compile(model)
    assert not first.program.cached and second.program.cached
    assert second.program.kernels_compiled == 0
    assert list(second.program.compile_times) == ["load"]
    assert first.program.objects == second.program.objects
    assert (second.inputs, second.outputs) == (first.inputs, first.outputs)
    assert second.program.report == first.program.report
    feeds = random_inputs(model)
    np.testing.assert_array_equal(first.run(feeds)[0], second.run(feeds)[0])
    # The same model given as bytes and as a file shares one entry.
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString(deterministic=True))
    assert cached(path.read_bytes()) and cached(path) and cached(str(path))
    assert len(programs_in(folder)) == 1


def test_progress_tells_that_a_program_was_found():
    seen: list[tuple[str, int, int]] = []
    tcopt.compile(dense())
    tcopt.compile(dense(), progress=lambda *step: seen.append(step))
    assert seen == [("load", 0, 1), ("done", 1, 1)]


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize(
    "options",
    [
        {"accuracy": "strict"},
        {"precision": "bf16"},
        {"target": "cpu:haswell"},
        {"shapes": {"x": [2, 8]}},
        {"values": {"x": np.ones((2, 8), np.float32)}},
    ],
)
def test_other_options_are_other_programs(options):
    tcopt.compile(dense())
    assert not cached(dense(), **options)
    assert cached(dense(), **options)
    if "values" in options:
        assert not cached(dense(), values={"x": np.zeros((2, 8), np.float32)})


def test_a_program_that_was_found_warns_as_its_compile_did():
    """An accelerator for signed bytes takes no part in a float model."""
    with pytest.warns(PlacementWarning) as first:
        assert not cached(dense(), "vta")
    with pytest.warns(PlacementWarning) as second:
        assert cached(dense(), "vta")
    assert [str(w.message) for w in second] == [str(w.message) for w in first]


def test_another_model_is_another_program(tmp_path):
    path = tmp_path / "model.onnx"
    results: list[np.ndarray] = []
    for seed in (0, 1):
        onnx.save(dense(seed=seed), path)
        model = tcopt.compile(path)
        assert not model.program.cached
        results.append(model.run(random_inputs(dense()))[0])
    assert not np.array_equal(*results)
    onnx.save(dense(), path)
    assert cached(path)


def save_with_weights_beside(model: ModelProto, path: Path) -> Path:
    """Write a model and return its weights file, which is older than any compile."""
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    weights = path.with_name("w.bin")
    before = time.time() - 10
    os.utime(weights, (before, before))
    return weights


def test_weights_in_other_files_are_part_of_a_model(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    weights = save_with_weights_beside(dense(), tmp_path / "a" / "m.onnx")
    first = tcopt.compile(tmp_path / "a" / "m.onnx")
    assert not first.program.cached
    assert cached(tmp_path / "a" / "m.onnx")
    # Another folder with the same content, then with other weights.
    save_with_weights_beside(dense(), tmp_path / "b" / "m.onnx")
    assert cached(tmp_path / "b" / "m.onnx")
    data = bytearray(weights.read_bytes())
    data[3] ^= 1
    weights.write_bytes(data)
    other = tcopt.compile(tmp_path / "a" / "m.onnx")
    assert not other.program.cached
    feeds = random_inputs(dense())
    assert not np.array_equal(first.run(feeds)[0], other.run(feeds)[0])
    weights.unlink()
    with pytest.raises(tcopt.support.errors.ImportModelError, match="does not exist"):
        tcopt.compile(tmp_path / "a" / "m.onnx")


def test_a_file_that_changes_meanwhile_is_not_kept(folder, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(dense(), path)

    def change(step: str, *_: int) -> None:
        if step == "kernels":
            onnx.save(dense(seed=1), path)

    with pytest.raises(InputError, match="has changed since"):
        tcopt.compile(path, progress=change)
    assert programs_in(folder) == []
    assert not cached(path) and cached(path)


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "gone", "facts"])
def test_damage_is_recovered_from(folder, damage):
    model = dense()
    whole = tcopt.compile(model)
    (path,) = programs_in(folder)
    data = path.read_bytes()
    if damage == "facts":
        wait_for_writers()
        for kept in folder.rglob("*.kernel"):
            kept.write_bytes(b"nonsense")
    elif damage == "gone":
        path.unlink()
    elif damage == "flipped":
        # An offset within the weights, which precede the digest.
        place = len(data) - 100
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    else:
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else b"")
    again = tcopt.compile(model)
    assert not again.program.cached and cached(model)
    feeds = random_inputs(model)
    np.testing.assert_array_equal(whole.run(feeds)[0], again.run(feeds)[0])


def test_open_shapes_are_found_at_the_run(folder):
    steps: list[str] = []
    source = dense("n").SerializeToString()
    results: list[np.ndarray] = []
    for _ in range(2):
        model = tcopt.compile(source, progress=lambda name, *_: steps.append(name))
        assert [spec.shape for spec in model.inputs] == [("n", 8)]
        results.append(model.run({"x": np.ones((3, 8), np.float32)})[0])
        steps.append("run")
    second = steps[steps.index("run") + 1 :]
    assert second == ["load", "done", "run"]
    np.testing.assert_array_equal(*results)


def test_values_that_decide_shapes_are_found_at_the_run(folder):
    net = Network("reshape")
    x = net.input("x", [4, 6])
    shape = net.input("shape", [2], TensorProto.INT64)
    model = net.model(**{net.add("Relu", net.add("Reshape", x, shape)): ["a", "b"]})
    steps: list[str] = []
    for wanted in ([3, 8], [3, 8], [8, 3]):
        steps.append("compile")
        compiled = tcopt.compile(model, progress=lambda name, *_: steps.append(name))
        feeds = {"x": np.ones((4, 6), np.float32), "shape": np.array(wanted)}
        assert compiled.run(feeds)[0].shape == tuple(wanted)
    runs = " ".join(steps).split("compile")[1:]
    assert [("load" in run, "kernels" in run) for run in runs] == [
        (False, True),
        (True, False),
        (False, True),
    ]


def test_the_cache_is_not_used_where_it_should_not_be(folder, monkeypatch):
    model = dense()
    tcopt.compile(model)
    assert not cached(model, cache=False)
    with collect_remarks() as remarks:
        assert not cached(model)
    assert remarks
    monkeypatch.setenv("TCOPT_CACHE", "kernels")
    assert not cached(model)
    monkeypatch.setenv("TCOPT_CACHE", "1")

    class Rule:
        name = "of-this-test"

        def apply(self, sch, target):
            return rules.Declined("never")

    with rules.RULES.override(("cpu", Rule.name), (99, Rule())):
        assert not cached(model)
    assert cached(model)


def test_explanations_and_profiles_are_made_of_what_was_found():
    model, source = dense(), dense().SerializeToString(deterministic=True)
    tcopt.compile(model)
    found = tcopt.compile(source)
    assert found.program.cached
    assert found.explain().calls
    assert found.profile(random_inputs(model), runs=1).kernels


def test_a_small_limit_is_kept(folder, monkeypatch):
    monkeypatch.setenv("TCOPT_CACHE_SIZE", "0")
    assert not cached(dense()) and not cached(dense())
    assert programs_in(folder) == []


_WARM = """
import sys
import numpy as np
import tcopt
source = sys.argv[1]
if sys.argv[2:] == ["decoded"]:
    import onnx
    source = onnx.load(source)
model = tcopt.compile(source)
(result,) = model.run({"x": np.ones((2, 8), np.float32)})
heavy = sorted({name.partition(".")[0] for name in sys.modules} & {"xdsl", "onnx"})
print(model.program.cached, heavy, result.tobytes().hex())
"""


def test_another_process_finds_it_without_ir_or_onnx(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(dense(), path)
    (expected,) = tcopt.compile(path).run({"x": np.ones((2, 8), np.float32)})
    wait_for_writers()
    for decoded, heavy in (([], []), (["decoded"], ["onnx"])):
        command = [sys.executable, "-c", _WARM, str(path), *decoded]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == f"True {heavy} {expected.tobytes().hex()}"


def test_every_byte_counts(tmp_path):
    data = bytearray(np.random.default_rng(0).bytes((17 << 20) + 5))
    path = tmp_path / "data"
    path.write_bytes(data)
    hashes = {hash_source(bytes(data))}
    assert hash_file(path) in hashes
    for place in (0, 8 << 20, len(data) - 1):
        data[place] ^= 1
        hashes.add(hash_source(bytes(data)))
    hashes.add(hash_source(bytes(data[:-1])))
    assert len(hashes) == 5 and hash_file(tmp_path / "none") is None


STAGES = {
    "three stages": """(float[9] x) => (float[k] y, int64[1, n] p) {
        half = Constant<value_float = 0.5>()
        over = Greater(x, half)
        p = NonZero(over)
        some = Compress(x, over)
        less = Sub(some, half)
        more = Greater(less, low)
        low = Constant<value_float = 0.25>()
        y = Compress(less, more)
    }""",
    "by value": """(float[100] x) => (int64[n] y) {
        most = ReduceMax<keepdims = 0>(x)
        limit = Cast<to = 7>(most)
        y = Range(zero, limit, one)
        zero = Constant<value_int = 0>()
        one = Constant<value_int = 1>()
    }""",
    "a sequence": """(seq(float[3]) s) => (seq(float[3]) t, float[k] y) {
        x = ConcatFromSequence<axis = 0>(s)
        t = SequenceInsert(s, x)
        flags = Cast<to = 9>(x)
        z = Compress(x, flags)
        y = Neg(z)
    }""",
    "strings": """(string[3] x) => (string[k] y) {
        u = Unique(x)
        w = Constant<value_strings = ["b", "c"]>()
        y = Concat<axis = 0>(u, w)
    }""",
}
STAGE_FEEDS = {
    "three stages": np.linspace(0, 1, 9, dtype=np.float32),
    "by value": np.linspace(0, 4.5, 100, dtype=np.float32),
    "a sequence": [np.array([0, 1, 2], np.float32), np.array([3, 0, 0], np.float32)],
    "strings": np.array(["b", "a", "b"]),
}


def plain(value: object) -> object:
    return list(map(plain, value)) if isinstance(value, list) else np.asarray(value).tolist()


@pytest.mark.parametrize("name", STAGES)
def test_stages_are_found(name: str):
    """The next compile finds every program of a model with data-dependent shapes."""
    text = f'<ir_version: 8, opset_import: ["" : 17]>\nstaged {STAGES[name]}'
    model = onnx.parser.parse_model(text)
    feeds = {model.graph.input[0].name: STAGE_FEEDS[name]}
    first = tcopt.compile(model, workers=0)
    expected = first.run(feeds)
    assert not any(part.cached for part in first.parts)
    second = tcopt.compile(model, workers=0)
    found = second.run(feeds)
    assert len(second.parts) == len(first.parts)
    assert all(part.cached for part in second.parts)
    assert all(list(part.compile_times) == ["load"] for part in second.parts)
    assert plain(found) == plain(expected)
    assert second.outputs == first.outputs
