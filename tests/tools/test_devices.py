"""The commands on devices, and their messages without one."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import pytest

from machines.opencl_device import needs_device
from models.tool_models import save_dense_relu
from tcopt.runtime.device import cuda, cuda_driver
from tcopt.tools import tcopt_bench, tcopt_run

Output = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save_dense_relu(path := tmp_path / "dense.onnx")
    return path


@needs_device
@pytest.mark.parametrize("target", ["opencl", "mali"])
def test_run_compares_with_onnxruntime(target: str, model: Path, capsys: Output) -> None:
    assert tcopt_run.main([str(model), "--target", target, "--compare", "onnxruntime"]) == 0
    assert "y: 2x4 float32" in capsys.readouterr().out


@needs_device
def test_bench_times_runs(model: Path, tmp_path: Path, capsys: Output) -> None:
    results = tmp_path / "results.json"
    wanted = [str(model), "--target", "mali", "--rounds", "2", "--peers", "onnxruntime"]
    assert tcopt_bench.main([*wanted, "--json", str(results)]) == 0
    assert json.loads(results.read_text())
    title, row = capsys.readouterr().out.splitlines()[-2:]
    assert title.split()[-1] == "error" and float(row.split()[-1]) < 1e-5


@pytest.mark.parametrize("tool", [tcopt_run, tcopt_bench])
def test_what_cuda_lacks_is_said(
    tool, model: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_driver, "open_library", lambda: ctypes.CDLL("nowhere.so.1"))
    cuda_driver.cuda_driver.cache_clear()
    cuda.cuda_device.cache_clear()
    assert tool.main([str(model), "--target", "cuda:sm_80"]) == 1
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert "unsupported: target cuda needs NVIDIA's driver" in said
