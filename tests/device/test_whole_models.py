"""The command that runs whole models, on a small one."""

from __future__ import annotations

import onnx.parser
import pytest

from device import whole_models
from machines.opencl_device import needs_device
from tcopt.backends.ptx.cuda_files import find_ptxas

PRODUCT = """<ir_version: 10, opset_import: ["" : 21]>
product (float[8, 12] x, float[12, 16] w) => (float[8, 16] y) { m = MatMul(x, w)  y = Relu(m) }"""


@needs_device
@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas; pip install nvidia-cuda-nvcc-cu12")
def test_a_model_is_run_and_assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    models = {"product": lambda: onnx.parser.parse_model(PRODUCT)}
    monkeypatch.setattr(whole_models, "MODELS", models)
    outcome = whole_models.outcome_of("product", ["sm_75"], whole_models.Outcome(), runs=True)
    assert not outcome.failed
    assert outcome.run is not None and outcome.run.launches == outcome.run.kernels == 1
    assert outcome.assemblies["sm_75"].spilling == []
    text = whole_models.document({"product": outcome}, "a device")
    assert "| product | 1 | 1 |" in text
    assert "| product | sm_75 | 1 |" in text
