"""Kernels as compile units: equal to whole-module compiles, shared, compiled by workers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import numpy as np
import pytest
from onnx import ModelProto
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr

import tcopt
from models import convolutional
from models.checks import run_reference
from models.light_models import random_inputs
from models.network import Network
from tcopt.backends.llvm.machine.host import default_target
from tcopt.backends.llvm.machine.machine import assemble_object
from tcopt.backends.llvm.objects import emit_text
from tcopt.compiler import Phase, kernel_builder, lower, pipeline
from tcopt.compiler.host import take_kernels
from tcopt.compiler.kernel import Kernel
from tcopt.compiler.pipeline import kernel_phases
from tcopt.compiler.units import CompileUnit, compile_text, compile_unit, make_unit
from tcopt.compiler.workers import Workers
from tcopt.frontends.onnx import import_model
from tcopt.schedules.rules import rule as rules
from tcopt.support.errors import ScheduleError, TcoptError
from tcopt.support.registries.registration import is_extended
from tcopt.support.remarks import collect_remarks
from tcopt.support.syntax.canonical_text import CanonicalText, base_name

PHASES = kernel_phases(pipeline())


def softmax_net() -> ModelProto:
    """A model with three kernels; the softmax needs private buffers."""
    net = Network("softmax")
    x = net.input("x", [4, 30])
    y = net.add("Softmax", net.gemm(x, 30, 40))
    return net.model(**{net.add("Transpose", y, perm=[1, 0]): [40, 4]})


def units_of(model: ModelProto) -> dict[str, CompileUnit]:
    module = import_model(model)
    lower(module, [phase for phase in pipeline() if phase.name in ("graph", "te")])
    texts = CanonicalText(module)
    return {
        name: make_unit(function, module, texts, "")
        for name, function in take_kernels(module).items()
    }


@pytest.mark.nightly(daily=["convs"])
@pytest.mark.parametrize(
    "make", [lambda: convolutional.residual_net(8, 4), softmax_net], ids=["convs", "softmax"]
)
def test_units_are_the_kernels_of_the_whole_module(make: Callable[[], ModelProto]):
    """The object code is the same alone or within the module, from the op or from its text."""
    model = make()
    whole = import_model(model)
    lower(whole, pipeline())
    functions = {op.sym_name.data: op for op in whole.ops if isinstance(op, func.FuncOp)}
    for name, unit in units_of(model).items():
        from_text = compile_text(unit.text, unit.name, PHASES)
        from_op = compile_unit(unit, PHASES)
        assert from_text.code == from_op.code
        assert from_text.workspace == from_op.workspace
        alone = functions[name]
        alone.detach()
        alone.sym_name = StringAttr(unit.name)
        text = emit_text(ModuleOp([alone], dict(whole.attributes)))
        assert assemble_object(text, default_target()) == from_op.code


def test_scheduling_at_once_is_applying_the_sequence():
    at_once = import_model(convolutional.residual_net(8, 4))
    lower(at_once, [phase for phase in pipeline() if phase.name in ("graph", "te", "loop")])
    by_sequence = at_once.clone()
    lower(at_once, [Phase("schedule", "schedule{now=true}")])
    lower(by_sequence, [Phase("schedule", "schedule,apply-schedule")])
    assert str(at_once) == str(by_sequence)


def test_names_and_places_are_not_in_the_text():
    model = convolutional.residual_net(8, 4)
    texts = [unit.text for unit in units_of(model).values()]
    for node in model.graph.node:
        node.name = f"n_{node.name}"
    for weight in model.graph.initializer:
        for node in model.graph.node:
            names = [f"w_{n}" if n == weight.name else n for n in node.input]
            node.input[:] = names
        weight.name = f"w_{weight.name}"
    assert [unit.text for unit in units_of(model).values()] == texts
    assert base_name("conv_add_12") == "conv_add" and base_name("conv") == "conv"


def test_what_the_code_depends_on_is_in_the_key():
    model = softmax_net()
    keys = {unit.key for unit in units_of(model).values()}
    module = import_model(model)
    lower(module, [p for p in pipeline("cpu:cortex-a53") if p.name in ("graph", "te")])
    texts = CanonicalText(module)
    functions = take_kernels(module).values()
    other_target = {make_unit(f, module, texts, "").key for f in functions}
    other_version = {make_unit(f, module, texts, "2").key for f in functions}
    assert len(keys | other_target | other_version) == 3 * len(keys)


def test_equal_kernels_are_compiled_once(monkeypatch):
    """Two layers that differ only in names, which the te level still distinguishes."""
    net = Network("twice")
    x = net.input("x", [4, 16])
    first = net.add("Softmax", x)
    second = net.add("Softmax", net.add("Identity", first), axis=1)
    model = net.model(**{second: [4, 16]})
    compiled = tcopt.compile(model, cache=False)
    assert compiled.program.kernels_compiled == 1
    feeds = random_inputs(model)
    np.testing.assert_allclose(
        compiled.run(feeds)[0], run_reference(model, feeds)[0], rtol=1e-5, atol=1e-6
    )


def test_kernels_are_read_as_written():
    (unit, *_) = units_of(softmax_net()).values()
    kernel = compile_unit(unit, PHASES)
    assert Kernel.from_bytes(kernel.to_bytes()) == kernel
    for damaged in (b"", b"\x00" * 20, kernel.to_bytes()[:40], b"\x02\0\0\0\0\0\0\0[]"):
        with pytest.raises(ValueError):
            Kernel.from_bytes(damaged)


def test_remarks_are_told_from_the_cache_too():
    model = softmax_net()
    told: list[list[str]] = []
    for _ in range(2):
        with collect_remarks() as remarks:
            tcopt.compile(model)
        told.append([str(remark) for remark in remarks])
    assert told[0] == told[1]
    assert any("@softmax" in text for text in told[0])


# Tests of worker processes.


@pytest.mark.nightly
def test_workers_make_the_same_code():
    model = softmax_net()
    alone = tcopt.compile(model, cache=False, workers=0).program
    shared = tcopt.compile(model, cache=False, workers=2).program
    assert shared.objects == alone.objects


@pytest.mark.parametrize(("asked", "count"), [("0", 0), ("3", 3), ("", 1), ("many", 1)])
def test_the_environment_says_how_many_workers(monkeypatch, asked, count):
    """By default there is one worker for each core except the compiling process's."""
    monkeypatch.setenv("TCOPT_WORKERS", asked)
    monkeypatch.setattr(kernel_builder, "usable_cores", lambda: 2)
    assert kernel_builder.most_workers() == count


def test_workers_do_all_there_is_to_do():
    """While this process compiles its own unit, a worker takes all others."""
    units = list(units_of(softmax_net()).values())
    here: list[CompileUnit] = []
    with Workers(1) as workers:

        def slowly(unit: CompileUnit) -> Kernel:
            here.append(unit)
            while len(here) == 1 and not all(u.key in done or u is unit for u in units):
                time.sleep(0.01)
            return compile_unit(unit, PHASES)

        done: dict[str, Kernel] = {}
        workers.share(units, PHASES, slowly, done)
    assert len(here) == 1 and set(done) == {unit.key for unit in units}


def test_a_worker_that_dies_is_done_without():
    units = list(units_of(softmax_net()).values())
    with Workers(2) as workers:
        pid = workers.processes[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        done = workers.share(units, PHASES, lambda unit: compile_unit(unit, PHASES))
    assert set(done) == {unit.key for unit in units}


def test_workers_end_with_their_context():
    with Workers(1) as workers:
        process = workers.processes[0]._process
        assert process is not None and process.poll() is None
    assert process.poll() is not None


def test_a_worker_ends_when_its_input_does():
    workers = Workers(1)
    process = workers.processes[0]._process
    assert process is not None and process.stdin is not None
    process.stdin.close()
    assert process.wait(timeout=30) == 0
    workers.stop()


def test_errors_are_the_same_with_workers():
    """The error is raised in this process, with the location in the model, wherever it occurred."""
    texts: list[str] = []
    model = convolutional.residual_net(8, 4)
    broken = [PHASES[0], Phase("kernel", "schedule,lower-loop-to-kernel")]
    for workers in (0, 1):
        units = list(units_of(model).values())
        with (
            Workers(workers) as others,
            pytest.raises(TcoptError, match="run lower-blocks") as caught,
        ):
            others.share(units, broken, lambda unit: compile_unit(unit, broken))
        assert "at " in str(caught.value)
        texts.append(str(caught.value).split(":")[0])
    assert texts[0] == texts[1]


def test_rules_of_ones_own_stay_in_this_process(monkeypatch, tmp_path):
    class Refusing:
        name = "refusing"

        def apply(self, schedule: object, target: object) -> None:
            raise ScheduleError("no")

    assert not is_extended()
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(tmp_path / "cache"))
    with rules.RULES.override(("cpu", "refusing"), (9999, Refusing())):
        assert is_extended()
        with collect_remarks() as remarks:
            tcopt.compile(softmax_net(), workers=1)
    assert any(remark.by == "refusing" for remark in remarks)
    assert not (tmp_path / "cache").exists()
