"""Rewrites that change rounding do not apply before a rounding to quantisation steps."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from xdsl.dialects.builtin import ModuleOp

import tcopt
from tcopt.dialects.graph.elementwise.arithmetic import AddOp, DivOp
from tcopt.passes.graph.folding.fold_scale import FoldScalePass
from tcopt.support.pipelines.running import new_context
from tcopt.support.syntax.parsing import LocatedParser

DIVIDED = """func.func @main(%x: tensor<4x64xf32>) -> tensor<4x64xTYPE> {
  %c = graph.constant dense<CONSTANT> : tensor<f32>
  %z = graph.constant dense<0> : tensor<ui8>
  %one = graph.constant dense<1.0> : tensor<f32>
  %y = graph.div %x, %c : tensor<4x64xf32>
  BODY
  func.return %r : tensor<4x64xTYPE>
}"""

STEPS = {
    "round": "%r = graph.round %y : tensor<4x64xf32>",
    "floor": "%r = graph.floor %y : tensor<4x64xf32>",
    "mod": "%r = graph.mod %y, %one {fmod} : tensor<4x64xf32>",
    "cast": "%r = graph.cast %y : tensor<4x64xi32>",
    "compare": "%r = graph.compare %y, %one {predicate = lt} : tensor<4x64xi1>",
    "quantize": "%r = graph.quantize %y, %one, %z : tensor<4x64xui8>",
    "later": "%0 = graph.relu %y : tensor<4x64xf32>\n  %1 = graph.mul %0, %0 : tensor<4x64xf32>\n"
    "  %r = graph.sign %1 : tensor<4x64xf32>",
}


def folded(body: str, constant: str = "3.0", accuracy: str = "default") -> ModuleOp:
    result = body.rpartition("tensor<4x64x")[2].rstrip(">")
    text = DIVIDED.replace("TYPE", result).replace("CONSTANT", constant).replace("BODY", body)
    context = new_context()
    module = LocatedParser(context, text).parse_module()
    FoldScalePass(accuracy=accuracy).apply(context, module)
    module.verify()
    return module


def divides(module: ModuleOp) -> bool:
    return any(isinstance(op, DivOp) for op in module.walk())


@pytest.mark.parametrize("name", STEPS)
def test_divisions_in_front_of_steps_stay(name: str):
    assert divides(folded(STEPS[name]))
    assert not divides(folded(STEPS[name], constant="0.25"))


@pytest.mark.parametrize(
    ("accuracy", "constant", "stays"),
    [
        ("strict", "3.0", True),
        ("strict", "-8.0", False),
        ("default", "3.0", False),
        ("fast", "3.0", False),
    ],
)
def test_accuracy_decides_elsewhere(accuracy: str, constant: str, stays: bool):
    assert divides(folded("%r = graph.tanh %y : tensor<4x64xf32>", constant, accuracy)) == stays


@pytest.mark.parametrize(
    ("constants", "last", "sums"),
    [
        (("12582912.0", "-12582912.0"), "%r = graph.tanh %b : tensor<4x64xf32>", 2),
        (("0.1", "0.3"), "%r = graph.tanh %b : tensor<4x64xf32>", 1),
        (("0.1", "0.3"), "%r = graph.round %b : tensor<4x64xf32>", 2),
    ],
)
def test_shifts_that_round_are_not_joined(constants: tuple[str, str], last: str, sums: int):
    shifts = f"""%s = graph.constant dense<{constants[0]}> : tensor<f32>
  %t = graph.constant dense<{constants[1]}> : tensor<f32>
  %a = graph.add %x, %s : tensor<4x64xf32>
  %b = graph.add %a, %t : tensor<4x64xf32>
  {last}"""
    module = folded(shifts)
    assert sum(isinstance(op, AddOp) for op in module.walk()) == sums


@pytest.mark.parametrize("accuracy", ["strict", "default"])
@pytest.mark.parametrize("step", ["Round", "Floor"])
def test_compiled_steps_are_those_of_numpy(accuracy: str, step: str):
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
      g (float[1024] x) => (float[1024] y) <float s = {{0.1}}> {{ a = Div(x, s) y = {step}(a) }}""")
    scale = np.float32(0.1)
    x = (np.arange(1024, dtype=np.float32) - 512) * scale / np.float32(2)
    (y,) = tcopt.compile(model, accuracy=accuracy, cache=False).run({"x": x})
    expected = {"Round": np.round, "Floor": np.floor}[step](x / scale)
    np.testing.assert_array_equal(y, expected)
