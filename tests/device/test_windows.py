"""Padded windows of every form: one launch on a GPU, with the padding computed where it is read."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto

import tcopt
from machines.cuda_machine import cuda_machine
from machines.opencl_device import needs_device
from models.checks import assert_close, run_reference
from models.light_models import random_inputs
from tcopt.compiler import lower, pipeline
from tcopt.dialects.loop import FuncOp
from tcopt.dialects.target import TARGET_ATTRIBUTE
from tcopt.frontends.onnx import import_model
from tcopt.runtime.device.program import DeviceProgram
from tcopt.schedules import Schedule
from tcopt.schedules.rules.gpu.facts import gpu_facts
from tcopt.schedules.rules.gpu.window_tile import WindowTiles
from tcopt.schedules.rules.rule import Declined
from tcopt.support.remarks import collect_remarks

RULE = "gpu-window-tile"
# Extents of the data, the window and its result, attributes; one channel a group.
WINDOWS = {
    "plain": ([1, 6, 9, 16], [6, 1, 3, 3], [1, 6, 9, 16], "pads = [1, 1, 1, 1]"),
    "strided": ([2, 6, 9, 15], [6, 1, 3, 3], [2, 6, 5, 8], "pads = [1, 1, 1, 1], strides = [2, 2]"),
    "one-sided": ([1, 4, 11, 13], [4, 1, 3, 5], [1, 4, 11, 12], "pads = [2, 0, 0, 3]"),
    "dilated": (
        [1, 4, 9, 12],
        [4, 1, 3, 3],
        [1, 4, 9, 12],
        "pads = [2, 2, 2, 2], dilations = [2, 2]",
    ),
    "large": ([1, 4, 12, 12], [4, 1, 7, 7], [1, 4, 12, 12], "pads = [3, 3, 3, 3]"),
    "unpadded": ([1, 4, 9, 12], [4, 1, 3, 3], [1, 4, 7, 10], "pads = [0, 0, 0, 0]"),
    "line": ([1, 6, 40], [6, 1, 5], [1, 6, 40], "pads = [2, 2]"),
    "volume": ([1, 4, 5, 6, 7], [4, 1, 3, 3, 3], [1, 4, 5, 6, 7], "pads = [1, 1, 1, 1, 1, 1]"),
    "two-channels": ([1, 8, 9, 16], [4, 2, 3, 3], [1, 4, 9, 16], "pads = [1, 1, 1, 1]"),
}


def window(name: str) -> ModelProto:
    """A grouped convolution of two inputs, with what follows."""
    data, weights, result, attributes = WINDOWS[name]
    group = data[1] // weights[1]
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
        f (float{data} a, float{weights} w) => (float{result} y) {{
          c = Conv <group = {group}, {attributes}> (a, w)  y = Relu (c) }}""")


def check_one_launch(model: ModelProto, target: str, rule: str) -> None:
    """Run on random inputs; the rule schedules the only launch."""
    feeds = random_inputs(model)
    machine: AbstractContextManager[object] = nullcontext()
    if target.startswith("cuda"):
        machine = cuda_machine((8, 0))
    with machine, collect_remarks() as remarks:
        compiled = tcopt.compile(model, target, cache=False)
        results = compiled.run(feeds)
    assert [r.by for r in remarks if r.message.startswith("scheduled")] == [rule]
    assert isinstance(compiled.program, DeviceProgram) and len(compiled.program.steps) == 1
    for ours, theirs in zip(results, run_reference(model, feeds), strict=True):
        assert_close(ours, np.asarray(theirs), 1e-5)


@pytest.mark.nightly(daily=["one-sided", "two-channels"])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_are_one_launch(name: str) -> None:
    check_one_launch(window(name), "cuda:sm_80", RULE)


@needs_device
@pytest.mark.nightly(daily=["opencl:mali-volume"])
@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("target", ["opencl", "opencl:mali"])
def test_windows_through_opencl(target: str, name: str) -> None:
    check_one_launch(window(name), target, RULE)


def test_few_results_of_a_long_sum_are_one_launch() -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        f (float[1, 8, 9, 16] a, float[1, 8, 3, 3] w) => (float[1, 1, 9, 16] y) {
          y = Conv <pads = [1, 1, 1, 1]> (a, w) }""")
    check_one_launch(model, "cuda:sm_80", "gpu-vector-product")


def chosen(data: list[int], weights: list[int], target: str) -> dict[str, int] | Declined:
    """The default of the rule for a depthwise convolution of a stride of 1."""
    pads = [weights[2] // 2] * 4
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
        f (float{data} a, float{weights} w) => (float{data} y) {{
          y = Conv <group = {data[1]}, pads = {pads}> (a, w) }}""")
    module = import_model(model)
    lower(module, [each for each in pipeline(target) if each.name in ("graph", "te", "loop")])
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    space = WindowTiles().space(Schedule(function), gpu_facts(module.attributes[TARGET_ATTRIBUTE]))
    return space if isinstance(space, Declined) else dict(space.default())


def test_rows_share_loads_where_threads_are_many() -> None:
    """Tiles are uniform, and one row high where more would leave cores idle."""
    found = chosen([1, 144, 56, 56], [144, 1, 3, 3], "cuda:sm_80")
    assert isinstance(found, dict) and found["rows"] in (4, 7, 8) and found["lanes"] == 1
    assert chosen([1, 6, 9, 16], [6, 1, 3, 3], "cuda:sm_80") == {"rows": 1, "lanes": 1}


def test_threads_that_are_loops_keep_vectors_of_padded_rows() -> None:
    assert isinstance(chosen([1, 144, 56, 56], [144, 1, 3, 3], "opencl:pocl"), Declined)
