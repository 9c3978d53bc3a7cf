"""benchmarks/gpu.py on a driver without a device: rows, errors, interruptions, and the page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

# At the end of the path: the benchmarks have packages with names of the tests' own.
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from gpus.rows import Rows, read_rows
from gpus.supervise import LOST, note, supervise
from tcopt.support.errors import InputError
from torch_graph import TorchGraph

ROOT = Path(__file__).parents[2]

MEASURING = """
import pathlib, sys, time
sys.path.append(sys.argv[1])
from gpus.rows import Rows
from gpus.supervise import note
output = pathlib.Path(sys.argv[2])
for key in sys.argv[3:]:
    if key in Rows(output, resume=True):
        continue
    if "runs" not in key:
        note(output, key)
    while "hangs" in key:
        time.sleep(60)
    if "dies" in key:
        sys.exit(9)
    Rows(output, resume=True).add(key, {"us": 1.0})
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> tuple[list[int], Path]:
    """Exit codes and rows of the runs of `machines/measured_gpu.py`."""
    output = tmp_path_factory.mktemp("gpu") / "rows.jsonl"
    script = ROOT / "tests" / "machines" / "measured_gpu.py"
    done = subprocess.run(
        [sys.executable, str(script), str(output)], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), output


@pytest.mark.nightly
def test_every_case_ends_as_a_row(measured):
    codes, output = measured
    # Without time, twice a part of it, until the device was lost, the rest, and the page.
    assert codes == [0, 0, 0, LOST, 0, 0]
    rows = read_rows(output)
    net, changed = rows["fusion/net/f32/1//tcopt"], rows["fusion/net/f32/1/fusion/tcopt"]
    for row in (net, changed):
        assert row["us"] > 0 and not row["wrong"] and row["flops"] == 2 * 4 * 4 * 4 * 4 * 9
    # One launch fused, and one for each operator otherwise.
    assert len(net["launches"]) < len(changed["launches"])
    assert all(launch["rule"] and launch["bytes"] > 0 for launch in changed["launches"])
    assert rows["roofs/fma f32"]["tflops"] > 0
    assert rows["roofs/copy"]["gbps"] > 0
    assert rows["layers/broken/f32/1//tcopt"]["error"] == "ValueError: no such model"
    assert rows["products/square/f16/1//tcopt"]["error"].startswith("DeviceLostError")
    assert rows["memory/unsupported/int4/1//tcopt"]["error"].startswith("KeyError")


@pytest.mark.nightly
def test_the_page_has_every_case_and_error(measured):
    _, output = measured
    page = output.with_suffix(".md").read_text()
    for part in ("| net | f32 | without fusion |", "## Roofs", "ValueError: no such model"):
        assert part in page


def test_rows_are_kept_repeated_and_cut_off(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = Rows(path, resume=True)
    rows.check_machine({"device": "one"})
    rows.add("a", {"error": "first"})
    rows.add("a", {"us": 1.0})
    rows.add("b", {"error": "second"})
    with path.open("a") as file:
        file.write('{"key": "c", "us"')
    assert set(Rows(path, resume=True).found) == {"machine", "a", "b"}
    assert set(Rows(path, resume=True, retry=True).found) == {"machine", "a"}
    assert read_rows(path)["a"]["us"] == 1.0
    with pytest.raises(InputError):
        Rows(path, resume=True).check_machine({"device": "other"})
    assert not Rows(path, resume=False).found


@pytest.mark.parametrize(("end", "patience"), [("hangs", 0.1), ("dies", 1000.0)])
def test_a_process_that_hangs_or_dies_is_replaced(tmp_path, end, patience):
    output, keys = tmp_path / "rows.jsonl", (f"a/{end}/f32/1//tcopt", "b/runs/f32/1//tcopt")
    command = [sys.executable, "-c", MEASURING, str(ROOT / "benchmarks"), str(output), *keys]
    assert supervise(command, output, patience) == 0
    failed, measured = (read_rows(output)[key] for key in keys)
    reason = "took more than 0.1 s" if end == "hangs" else "ended with 9"
    assert reason in failed["error"] and failed["case"] == end
    assert measured["us"] == 1.0


def test_a_process_that_measures_nothing_is_not_started_again(tmp_path):
    started = tmp_path / "started"
    program = f"open({str(started)!r}, 'a').write('.'); raise SystemExit(1)"
    assert supervise([sys.executable, "-c", program], tmp_path / "rows.jsonl") == 1
    assert started.read_text() == "."
    note(tmp_path / "rows.jsonl", "")


def test_an_lstm_with_a_state_is_pytorchs():
    torch = pytest.importorskip("torch")
    onnxruntime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    steps, batch, width, size = 3, 2, 5, 4
    shapes = {
        "w": (1, 4 * size, width),
        "r": (1, 4 * size, size),
        "b": (1, 8 * size),
        "h": (1, batch, size),
        "c": (1, batch, size),
    }
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    node = helper.make_node(
        "LSTM", ["x", "w", "r", "b", "", "h", "c"], ["y", "yh", "yc"], hidden_size=size
    )
    infos = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        for name in ("y", "yh", "yc")
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (steps, batch, width))
    graph = helper.make_graph([node], "lstm", [x], infos, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"x": rng.standard_normal((steps, batch, width)).astype(np.float32)}
    network = TorchGraph(torch, model, "f32", device="cpu")
    found = network.run({"x": network.tensor(feeds["x"])})
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-5, atol=1e-6)
