"""An accelerator defined in one file outside the tree: from a quantised model to its simulator."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

import tcopt
from models.quantised_models import quantised
from tcopt.backends.accelerator.check import check_program
from tcopt.backends.accelerator.code import FUNCTION, code_for, code_in
from tcopt.backends.accelerator.simulator.timing import simulate
from tcopt.backends.accelerator.simulator.trace import trace_events
from tcopt.dialects.accelerator import BarrierOp, ProgramOp
from tcopt.dialects.accelerator.reading import read_program
from tcopt.runtime.program import Program
from tcopt.support.errors import VerificationError
from tcopt.support.registries.plugins import unload
from tcopt.tools import tcopt_run

EXAMPLES = Path(__file__).parents[2] / "examples"
EVERY = {"instead-of:partition": "partition{all-of-them=true}"}
MACHINES = ("tile", "tile:tokens")


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the file of the accelerator, outside the tree."""
    path = tmp_path_factory.mktemp("outside") / "tile_accelerator.py"
    shutil.copy(EXAMPLES / path.name, path)
    yield path
    unload(path)


@pytest.fixture(scope="module")
def source() -> onnx.ModelProto:
    return quantised((8, 16, 8), 7, kernel=3, stride=1)


@pytest.fixture(scope="module", params=MACHINES)
def model(request: pytest.FixtureRequest, plugin: Path, source: onnx.ModelProto) -> tcopt.Model:
    target = request.param
    return tcopt.compile(source, target, plugins=[plugin], passes=EVERY, cache=False, workers=0)


def programs(model: tcopt.Model) -> list[ProgramOp]:
    program = model.program
    assert isinstance(program, Program)
    return [code_in(call.settings).program for call in program.calls if call.function == FUNCTION]


@pytest.mark.nightly(every=2)
def test_a_model_computes_what_it_does_on_a_cpu(
    model: tcopt.Model, source: onnx.ModelProto, tmp_path: Path
) -> None:
    """Both convolutions run on the accelerator, for the model in memory and loaded from a file."""
    feeds = {"x": np.random.default_rng(1).normal(size=(1, 8, 7, 7)).astype(np.float32)}
    (expected,) = tcopt.compile(source, cache=False, workers=0).run(feeds)
    assert len(programs(model)) == 2
    np.testing.assert_array_equal(model.run(feeds)[0], expected)
    model.save(tmp_path / "model.tcm")
    again = tcopt.load(tmp_path / "model.tcm")
    np.testing.assert_array_equal(again.run(feeds)[0], expected)


def arguments(program: ProgramOp) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    types = [value.type for value in program.body.block.args]
    dtypes = [np.int8, np.int8, np.int32]
    return [
        rng.integers(-128, 128, type.get_shape()).astype(dtype)
        for type, dtype in zip(types, dtypes, strict=True)
    ]


def test_results_do_not_depend_on_the_order_of_units(model: tcopt.Model) -> None:
    program = programs(model)[0]
    assert check_program(program)[1].holds
    code, first = code_for(program), arguments(program)
    code.run(first)
    for seed in range(4):
        again = arguments(program)
        code.run(again, seed)
        np.testing.assert_array_equal(again[2], first[2])


def test_what_units_wait_for_is_all_needed(model: tcopt.Model) -> None:
    """Removing any single barrier or token makes the proof fail."""
    program = programs(model)[0]
    count = len([step for step in program.steps if waits(step)])
    assert count > 1
    for number in range(count):
        other = program.clone()
        ModuleOp([other])
        step = [step for step in other.steps if waits(step)][number]
        if isinstance(step, BarrierOp):
            step.detach()
        else:
            first, *rest = step.waits_for
            unit = str(step.unit)
            steps = [each for each in other.steps if each.unit == unit and first in each.waits_for]
            senders = [s for s in other.steps if s.unit == first and unit in s.sends_to]
            # The n-th wait on a queue receives the n-th token sent.
            sender = senders[steps.index(step)]
            step.set_tokens(rest, step.sends_to)
            sender.set_tokens(sender.waits_for, [u for u in sender.sends_to if u != unit])
        with pytest.raises(VerificationError, match=r"race|unfinished"):
            check_program(other)


def waits(step: object) -> bool:
    return isinstance(step, BarrierOp) or bool(getattr(step, "waits_for", ()))


def test_time_and_trace_are_those_of_its_units(model: tcopt.Model) -> None:
    """Every cycle of a unit is either work or a wait with a named cause."""
    program = programs(model)[0]
    facts = program.facts
    assert facts is not None
    read = read_program(program, facts)
    timeline = simulate(read.machine, read.tasks)
    for unit in facts.units:
        busy = timeline.busy[unit] + sum(timeline.stalls[unit].values())
        assert busy == timeline.cycles
    events = trace_events(read.machine, read.tasks, timeline)
    names = {event["name"] for event in events}
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert tracks >= {"data", "weights", "matrix", "drain", "port"}
    if any(isinstance(step, BarrierOp) for step in program.steps):
        assert {"wait: barrier", "wait: the data unit"} <= names
    else:
        assert {"wait: data->matrix", "token matrix->drain"} <= names
    assert json.dumps(events)


def test_tools_take_it(
    plugin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], source: onnx.ModelProto
) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(source, path)
    given = [str(path), "--load", str(plugin), "--target", "tile", "--seed", "1", "--no-cache"]
    assert tcopt_run.main(given) == 0
    assert "y: 1x8x7x7 float32" in capsys.readouterr().out
