"""A Gemmini-like machine: one scratchpad, scaling on read-out, hazards detected by hardware."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import tcopt
from models.quantised_models import quantised
from tcopt.backends.accelerator.check import check_program
from tcopt.backends.accelerator.code import FUNCTION, code_for, code_in
from tcopt.backends.accelerator.simulator.proof import prove
from tcopt.backends.accelerator.simulator.timing import simulate
from tcopt.dialects.accelerator import ProgramOp, RunOp
from tcopt.runtime.program import Program
from tcopt.support.registries.plugins import unload

PLUGIN = Path(__file__).parent / "outside" / "scaling_machine.py"
EVERY = {"instead-of:partition": "partition{all-of-them=true}"}


@pytest.fixture(scope="module")
def source() -> onnx.ModelProto:
    """Channels do not fill the last block."""
    return quantised((16, 24, 16), 6)


@pytest.fixture(scope="module")
def model(source: onnx.ModelProto) -> Iterator[tcopt.Model]:
    yield tcopt.compile(source, "scaling", plugins=[PLUGIN], passes=EVERY, cache=False, workers=0)
    unload(PLUGIN)


def programs(model: tcopt.Model) -> list[ProgramOp]:
    program = model.program
    assert isinstance(program, Program)
    return [code_in(call.settings).program for call in program.calls if call.function == FUNCTION]


def names_in(program: ProgramOp) -> set[str]:
    return {step.intrin.data for step in program.steps if isinstance(step, RunOp)}


def test_a_model_computes_what_it_does_on_a_cpu(
    model: tcopt.Model, source: onnx.ModelProto
) -> None:
    """The results of the first convolution are bytes, scaled on read-out; those of the last one are
    sums."""
    feeds = {"x": np.random.default_rng(1).normal(size=(1, 16, 6, 6)).astype(np.float32)}
    (expected,) = tcopt.compile(source, cache=False, workers=0).run(feeds)
    np.testing.assert_array_equal(model.run(feeds)[0], expected)
    first, last = programs(model)
    assert "scaling_read_out_relu" in names_in(first) and "scaling_move_out" in names_in(last)


def test_hazards_are_found_by_the_machine(model: tcopt.Model) -> None:
    """Programs contain no synchronisation; without interlocks the units would race."""
    program = programs(model)[1]
    read, proof = check_program(program)
    assert proof.holds and {step.name for step in program.steps} == {
        "accelerator.run",
        "accelerator.finish",
    }
    loose = [replace(task, after=(), causes=()) for task in read.tasks]
    assert {fault.kind for fault in prove(read.machine, loose).faults} >= {"race"}
    timeline = simulate(read.machine, read.tasks)
    assert timeline.stalls["execute"]["RAW scratchpad_rows"] > 0
    code = code_for(program)
    rng = np.random.default_rng(0)
    x, w = (
        rng.integers(-128, 128, value.type.get_shape()).astype(np.int8)
        for value in program.body.block.args[:2]
    )
    y = np.zeros(program.body.block.args[2].type.get_shape(), np.int32)
    code.run([x, w, y])
    for seed in range(3):
        again = np.zeros_like(y)
        code.run([x, w, again], seed)
        np.testing.assert_array_equal(again, y)
