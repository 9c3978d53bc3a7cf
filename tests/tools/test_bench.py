"""tcopt-bench and benchmarks/run.py: measurements, files, output and errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from models.tool_models import save_dense_relu
from tcopt.backends.llvm.limits import copy_gbps, peak_gflops
from tcopt.support.errors import InputError
from tcopt.support.processes.turns import Times, speed, take_turns
from tcopt.tools.benchmarking.report import geometric_mean, outcomes
from tcopt.tools.benchmarking.sides import check_peers, installed_peers
from tcopt.tools.tcopt_bench import main

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("bench") / "model.onnx"
    save_dense_relu(path)
    return str(path)


def test_a_model_is_measured_against_a_peer(model, tmp_path, capsys):
    result = tmp_path / "result.json"
    arguments = [model, "--rounds", "1", "--threads", "1", "2", "--peers", "onnxruntime"]
    assert main([*arguments, "--json", str(result), "--memory"]) == 0
    written = json.loads(result.read_text())
    report = written[model]
    # x [2, 8] @ w [8, 4] + b [4]; each weight takes a multiple of 64 bytes.
    assert report["flops"] == 2 * 2 * 8 * 4
    assert report["bytes"] == 4 * (2 * 8 + 2 * 4) + report["weight_bytes"]
    assert [run["threads"] for run in report["runs"]] == [1, 2]
    for run in report["runs"]:
        assert set(run["median_ms"]) == {"tcopt", "onnxruntime"}
        assert all(run["least_ms"][n] <= ms for n, ms in run["median_ms"].items())
        assert run["accuracy"][0]["passed"]
        assert run["peak_gflops"] > 0
        assert run["copy_gbps"] > 0
    peaks = report["peak_bytes"]
    assert peaks["compile"] > peaks["bare"] > 1 << 20
    assert written["machine"]["cores"] >= 1
    assert written["machine"]["versions"]["onnxruntime"]
    shown = capsys.readouterr().out
    assert "onnxruntime ms" in shown
    assert "peak memory: bare" in shown
    first = outcomes(report)[0]
    assert first.best_peer == "onnxruntime"
    assert first.ratio == pytest.approx(first.peers_ms["onnxruntime"] / first.ours_ms)
    assert first.is_memory_bound


def test_open_dimensions_limits_and_weights_in_files(tmp_path, capsys):
    """Dimensions are fixed by name; external weights are found, by other runtimes too."""
    path = tmp_path / "model.onnx"
    save_dense_relu(path, batch="batch")
    model = onnx.load(str(path))
    onnx.save(model, str(path), save_as_external_data=True, size_threshold=0, location="w.bin")
    arguments = [str(path), "--rounds", "1", "--peers", "onnxruntime", "--dim", "batch=3"]
    assert main([*arguments, "--limit", "nodes=9", "--no-cache"]) == 0
    assert "compiled for batch = 3" in capsys.readouterr().out
    assert main([*arguments, "--limit", "tensor-bytes=16"]) == 1
    assert "raise the limit tensor-bytes=16" in capsys.readouterr().err
    assert main([str(path), "--peers", "--limit", "size=1"]) == 1
    assert "there is no limit 'size'" in capsys.readouterr().err


def test_a_range_is_measured_at_one_size(tmp_path):
    path, result = tmp_path / "model.onnx", tmp_path / "result.json"
    save_dense_relu(path, batch="batch")
    arguments = [str(path), "--rounds", "1", "--peers", "--dim", "batch=2..3"]
    assert main([*arguments, "--json", str(result)]) == 0
    report = json.loads(result.read_text())[str(path)]
    batch = (report["bytes"] - report["weight_bytes"]) // (4 * (8 + 4))
    assert batch in (2, 3)
    assert report["flops"] == 2 * batch * 8 * 4


def test_the_profile_names_nodes_and_the_trace_loads(model, tmp_path, capsys):
    trace = tmp_path / "trace.json"
    assert main([model, "--rounds", "2", "--profile", "--trace", str(trace)]) == 0
    shown = capsys.readouterr().out
    assert "dense, activation" in shown
    assert "100.0%" in shown
    events = json.loads(trace.read_text())["traceEvents"]
    assert [e["args"]["nodes"] for e in events if e.get("cat") == "kernel"] == [
        ["dense", "activation"]
    ] * 2


def test_results_far_from_the_peers_are_an_error(model, capsys):
    assert main([model, "--rounds", "1", "--peers", "onnxruntime", "--rtol=-1"]) == 1
    assert "DIFFER from onnxruntime's" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.onnx"], "no file 'nothing.onnx'"),
        (["MODEL", "--peers", "abacus"], "no peer 'abacus'"),
        (["MODEL", "--rounds", "0"], "must be at least 1"),
        (["MODEL", "--threads", "0"], "must be at least 1"),
        (["MODEL", "--input", "z=@z.npy"], "no file 'z.npy'"),
        (["MODEL", "--shape", "x"], "is not a shape"),
    ],
)
def test_wrong_uses_are_one_message(model, arguments, message, capsys):
    assert main([model if a == "MODEL" else a for a in arguments]) == 1
    assert message in capsys.readouterr().err


def test_peers_that_are_missing_say_what_to_install():
    assert "onnxruntime" in installed_peers()
    missing = {"torch", "tvm", "openvino"} - set(installed_peers())
    for name in missing:
        with pytest.raises(InputError, match="is not installed"):
            check_peers([name])


def test_sides_take_turns_and_each_order_comes_up():
    calls: list[str] = []
    sides = {name: lambda name=name: calls.append(name) for name in "ab"}
    times = take_turns(sides, rounds=2, burst_s=0.0)
    # Two runs to estimate the duration, then bursts of two, of which one is timed.
    assert "".join(calls) == "aabb" + "aabb" + "bbaa"
    assert all(len(t.seconds) == 2 and t.least <= t.median for t in times.values())


def test_sides_are_compared_round_by_round():
    # In the second and fourth round the machine runs at half speed, slightly later for one side.
    ours = Times(((1.0, 1.0), (2.0, 2.0), (1.0, 1.0), (2.0, 2.0), (2.0, 2.0)))
    theirs = Times(((1.5, 1.5), (3.0, 3.0), (1.5, 1.5), (3.0, 3.0), (1.5, 1.5)))
    assert (ours.median, theirs.median) == (2.0, 1.5)
    assert speed(ours, theirs) == 1.5


def test_limits_are_measured():
    assert peak_gflops(seconds=0.001) > 0.1
    assert copy_gbps(1 << 14, seconds=0.001) > 0.01
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


@pytest.mark.nightly
def test_the_benchmarks_run_resume_and_sum_up(tmp_path):
    output, chart = tmp_path / "results.json", tmp_path / "results.svg"
    command = [sys.executable, "benchmarks/run.py", "--only", "depthwise", "--output", str(output)]
    command += ["--rounds", "1", "--threads", "1", "--peers", "onnxruntime"]
    if chart_library():
        command += ["--chart", str(chart)]
    shown = run([*command, "--filter", "D9"])
    first = json.loads(output.read_text())["cases"]
    assert list(first) == ["D9"]
    assert first["D9"]["flops"] == 2 * 9 * 7 * 7 * 1024
    assert "depthwise convolutions" in shown
    page = tmp_path / "page.md"
    shown = run([*command, "--filter", "D[89]", "--resume", "--page", str(page)])
    both = json.loads(output.read_text())["cases"]
    assert both["D9"] == first["D9"]
    assert set(both) == {"D8", "D9"}
    assert "1/1 D8" in shown
    (row,) = [line for line in page.read_text().splitlines() if line.startswith("| D9 |")]
    ours = first["D9"]["runs"][0]["median_ms"]
    assert row.split(" | ")[1:3] == [f"{ours[side]:.3g}" for side in ("tcopt", "onnxruntime")]
    assert chart.is_file() == chart_library()
    assert "C12" in run([sys.executable, "benchmarks/run.py", "--list"])


def chart_library() -> bool:
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def run(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.nightly
def test_the_search_for_slow_cases_draws_shrinks_and_groups(tmp_path):
    output = tmp_path / "cliffs.json"
    command = [sys.executable, "benchmarks/cliffs.py", "--only", "product", "--cases", "1"]
    # A thousandfold speed-up cannot be real, so the case is shrunk.
    text = run(
        [*command, "--slow", "1000", "--shrinks", "1", "--rounds", "1", "--output", str(output)]
    )
    found = json.loads(output.read_text())
    assert len(found["cases"]) == len(found["slow"]) == 1
    assert found["slow"][0]["rule"].startswith("cpu-") and "1 by cpu-" in text
    assert all(case["ratio"] > 0 and not case["error"] for case in found["cases"])


@pytest.mark.nightly
def test_networks_are_compared_with_and_without_lock_files(tmp_path: Path) -> None:
    script = [sys.executable, "benchmarks/tuned_networks.py", "--folder", str(tmp_path)]
    chosen = [*script, "--only", "dqn", "--threads", "1"]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*chosen, *more], cwd=ROOT, capture_output=True, text=True, check=False
        )

    first = run("--compare", "--rounds", "1")
    assert first.returncode == 0, first.stderr
    (row,) = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert set(row["ms"]) == {"untuned", "onnxruntime", "openvino"} - set(row["failed"])
    assert row["gain"] == 1.0 and not row["difference"]
    assert "| dqn | - |" in first.stdout
    assert first.stdout.endswith(run("--report").stdout)
    unknown = run("--only", "none")
    assert unknown.returncode == 1 and "there is no network 'none'" in unknown.stderr
