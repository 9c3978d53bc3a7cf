"""Quantised models on the CPU and the accelerator have the CPU's integers, bit by bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tcopt
from models.quantised_models import quantised
from tcopt.backends.accelerator.code import FUNCTION
from tcopt.backends.vdla.machines import MACHINES, named_machine
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.runtime.program import Program

MODELS = {
    "two convolutions": ("vdla", quantised((16, 32, 16), 8)),
    "bytes without a sign": ("vdla", quantised((16, 24), 7, zero=3, element=np.uint8)),
    "a first layer": (
        "vdla",
        quantised((3, 16), 16, kernel=7, stride=2, pad=3, zero=120, element=np.uint8),
    ),
    "equal layers": ("vdla", quantised((16, 16, 16, 16), 6)),
    "an alu": ("vdla:vta", quantised((16, 24, 16), 7, shifts=True)),
}


def test_a_unit_of_several_rows_is_left_alone() -> None:
    """No layout applies, so the host computes everything."""
    facts = {**named_machine("vdla").facts(), "rows": 4}
    MACHINES["rows"] = VdlaTargetAttr.of_facts(facts)
    source = quantised((16, 16), 6)
    feeds = {"x": np.random.default_rng(1).normal(size=(1, 16, 6, 6)).astype(np.float32)}
    try:
        model = tcopt.compile(source, "vdla:rows", cache=False, workers=0)
    finally:
        del MACHINES["rows"]
    assert isinstance(model.program, Program) and not model.program.calls
    (expected,) = tcopt.compile(source, cache=False, workers=0).run(feeds)
    np.testing.assert_array_equal(model.run(feeds)[0], expected)


@pytest.mark.nightly(daily=["an alu"])
@pytest.mark.parametrize("name", MODELS)
def test_models_are_what_the_cpu_computes(name: str, tmp_path: Path) -> None:
    """Each convolution is a call of the accelerator, for the model in memory and loaded from a
    file."""
    target, source = MODELS[name]
    shape = [d.dim_value for d in source.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": np.random.default_rng(1).normal(size=shape).astype(np.float32)}
    (expected,) = tcopt.compile(source, cache=False, workers=0).run(feeds)
    passes = {"instead-of:partition": "partition{all-of-them=true}"}
    model = tcopt.compile(source, target, cache=False, workers=0, passes=passes)
    program = model.program
    assert isinstance(program, Program)
    convolutions = sum(node.op_type == "Conv" for node in source.graph.node)
    assert [call.function for call in program.calls] == [FUNCTION] * convolutions
    (found,) = model.run(feeds)
    np.testing.assert_array_equal(found, expected)
    path = tmp_path / "model.tcm"
    model.save(path)
    loaded = tcopt.load(path)
    np.testing.assert_array_equal(loaded.run(feeds)[0], expected)
    assert isinstance(loaded.program, Program)
    assert [c.symbol for c in loaded.program.calls] == [c.symbol for c in program.calls]
    if name == "equal layers":
        assert len(program.host_functions) < len(program.calls)
