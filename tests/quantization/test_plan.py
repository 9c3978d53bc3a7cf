"""The selection of layers by error and time, and a model's plan as the tool prints it."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.quantization_models import dense, images
from tcopt.quantization import measuring
from tcopt.quantization.plan import ERROR, QUANTIZED, SLOWER, LayerPlan, choose
from tcopt.tools.tcopt_quantize import main

_LAYERS = st.lists(
    st.tuples(st.floats(0, 1), st.floats(1, 100), st.floats(1, 100)), min_size=1, max_size=12
)


def _rows(layers: list[tuple[float, float, float]]) -> list[LayerPlan]:
    return [
        LayerPlan(str(number), "Conv", error, 30.0, before, after)
        for number, (error, before, after) in enumerate(layers)
    ]


@given(_LAYERS, st.one_of(st.none(), st.floats(0.01, 1)), st.floats(0, 0.9))
def test_a_choice_keeps_to_its_limits(
    layers: list[tuple[float, float, float]], max_error: float | None, min_gain: float
) -> None:
    rows = _rows(layers)
    by_name = {row.name: row for row in rows}

    def error_of(names: Collection[str]) -> float:
        return math.sqrt(math.fsum(by_name[name].error ** 2 for name in names))

    choice = choose(rows, error_of, 1.0, max_error=max_error, min_gain=min_gain)
    chosen = [name for name, verdict in choice.verdicts.items() if verdict == QUANTIZED]
    assert all(by_name[n].saved_us > 0 and by_name[n].gain >= min_gain for n in chosen)
    assert max_error is None or error_of(chosen) <= max_error
    assert choice.chosen.layers == len(chosen) and choice.chosen.error == error_of(chosen)
    assert choice.chosen in choice.curve
    slow = [name for name, verdict in choice.verdicts.items() if verdict == SLOWER]
    assert all(by_name[n].saved_us <= 0 or by_name[n].gain < min_gain for n in slow)
    if max_error is None:
        assert ERROR not in choice.verdicts.values()


def test_what_adds_most_error_for_its_time_goes_first() -> None:
    rows = _rows([(0.5, 100, 10), (0.5, 20, 10), (0.1, 100, 10)])
    errors = {"0": 0.5, "1": 0.5, "2": 0.1}
    choice = choose(
        rows, lambda names: sum(errors[name] for name in names), 1.0, max_error=0.7, min_gain=0.0
    )
    assert list(choice.verdicts.values()) == [QUANTIZED, ERROR, QUANTIZED]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    model = dense()
    onnx.save(model, str(folder / "model.onnx"))
    np.savez(folder / "data.npz", **images(model))
    return folder


def _run(folder: Path, *arguments: str) -> int:
    given = [str(folder / a) if a.endswith((".onnx", ".npz", ".json")) else a for a in arguments]
    return main(given)


@pytest.mark.nightly
def test_a_plan_is_made_shown_and_reported(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_RUNS", "_ROUNDS"):
        monkeypatch.setattr(measuring, name, 2)
    # Whether 8 bits are faster depends on the machine, so -o may be rejected.
    arguments = ("--data", "data.npz", "--json", "plan.json", "--samples", "1")
    code = _run(files, "model.onnx", *arguments, "-o", "planned.onnx")
    shown = capsys.readouterr()
    if code:
        assert "none saves time in 8 bits" in shown.err and not (files / "planned.onnx").exists()
    else:
        assert "of 2 layers in 8 bits" in shown.out and (files / "planned.onnx").exists()
        plan = json.loads((files / "plan.json").read_text())
        assert [layer["operator"] for layer in plan["layers"]] == ["Gemm"] * 2
        assert all(layer["error"] > 0 and layer["float_us"] > 0 for layer in plan["layers"])
    assert _run(files, "model.onnx", "--data", "data.npz", "--all", "-o", "q.onnx") == 0
    assert "2 of 2 layers in 8 bits" in capsys.readouterr().out
    assert _run(files, "q.onnx", "--data", "data.npz", "--report", *arguments[2:]) == 0
    plan = json.loads((files / "plan.json").read_text())
    assert len(plan["layers"]) == 2 and 0 < plan["error"] < 0.1
    assert all(layer["error"] > 0 and layer["int8_us"] > 0 for layer in plan["layers"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("model.onnx", "-o", "out.onnx"), "no calibration data"),
        (("model.onnx", "--data", "data.npz"), "no output file is given"),
        (("model.onnx", "--data", "data.npz", "--report", "-o", "out.onnx"), "writes no model"),
        (("none.onnx", "--data", "data.npz", "-o", "out.onnx"), "there is no file"),
        (("model.onnx", "--data", "none.npz", "-o", "out.onnx"), "there is no file"),
        (("model.onnx", "--data", "model.onnx", "-o", "out.onnx"), "is not a numpy file"),
        (("model.onnx", "--data", "data.npz", "-o", "out.onnx", "--all", "--max-error", "1"),
         "--all measures nothing"),
        (("model.onnx", "--data", "data.npz", "--report"), "the model is not quantised"),
        (("model.onnx", "--data", "data.npz", "-o", "out.onnx", "--threads", "0"), "one thread"),
        (("data.npz", "--data", "data.npz", "-o", "out.onnx"), "not an ONNX model"),
    ],
)  # fmt: skip
def test_the_tool_says_what_is_wrong(
    files: Path, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(files, *arguments) == 1
    shown = capsys.readouterr().err
    assert message in shown and "Traceback" not in shown and "internal error" not in shown
    assert not (files / "out.onnx").exists()
