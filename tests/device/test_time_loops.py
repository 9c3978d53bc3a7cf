"""Recurrent layers on a GPU: a step of time launches kernels, and copies nothing."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto
from xdsl.dialects import memref, scf

import tcopt
from machines.cuda_machine import cuda_machine
from models.checks import assert_close, run_reference
from models.light_models import random_inputs
from tcopt.compiler import lower, pipeline
from tcopt.frontends.onnx import import_model

# Sizes of states that are multiples of 64 bytes, and that are not.
LAYERS = {
    "lstm": """(float[T, 2, 8] x, float[1, 24, 8] w, float[1, 24, 6] r)
        => (float[T, 1, 2, 6] y, float[1, 2, 6] h, float[1, 2, 6] c) {
          y, h, c = LSTM <hidden_size = 6> (x, w, r) }""",
    "reversed-gru": """(float[T, 1, 8] x, float[1, 48, 8] w, float[1, 48, 16] r)
        => (float[T, 1, 1, 16] z) {
          y, h = GRU <hidden_size = 16, direction = "reverse"> (x, w, r)  z = Exp (y) }""",
    "last-state": """(float[T, 1, 8] x, float[2, 5, 8] w, float[2, 5, 5] r)
        => (float[2, 1, 5] z) {
          y, h = RNN <hidden_size = 5, direction = "bidirectional"> (x, w, r)  z = Exp (h) }""",
    "window-of-two": """(float[2, 16] first, float[T, 1, 16] x)
        => (float[2, 16] last, float[T, 1, 16] y) {
          last, y = Scan <num_scan_inputs = 1, body = step (float[2, 16] s, float[1, 16] v)
              => (float[2, 16] t, float[1, 16] o) {
            begins = Constant <value_ints = [1, 0]> ()  ends = Constant <value_ints = [2, 16]> ()
            new = Slice (s, begins, ends)  o = Mul (new, v)
            t = Concat <axis = 0> (new, o) }> (first, x) }""",
}


def layer(name: str, steps: int) -> ModelProto:
    text = LAYERS[name].replace("[T,", f"[{steps},")
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> f {text}')


@pytest.mark.parametrize("name", LAYERS)
def test_steps_copy_nothing(name: str) -> None:
    module = import_model(layer(name, 4))
    phases = pipeline("cuda:sm_80")
    lower(module, [each for each in phases if each.name in ("graph", "te", "loop")])
    loops = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    assert loops and not any(isinstance(op, memref.CopyOp) for each in loops for op in each.walk())


@pytest.mark.nightly(daily=["window-of-two"])
@pytest.mark.parametrize("name", LAYERS)
def test_states_alternate(name: str) -> None:
    """An odd number of steps ends in the other slot than an even one."""
    for steps in (2, 3):
        model = layer(name, steps)
        feeds = random_inputs(model)
        with cuda_machine((8, 0)):
            results = tcopt.compile(model, "cuda:sm_80", cache=False).run(feeds)
        for ours, theirs in zip(results, run_reference(model, feeds), strict=True):
            assert_close(ours, np.asarray(theirs), 1e-5)
