"""Reports on kernels far from the target's limits, and on forms without a rule: as remarks, by
`tcopt-check` and `tcopt-compile`, and in profiles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

import tcopt
from models.network import Network
from programs.schedule_programs import matmul
from tcopt.compiler import pipeline
from tcopt.compiler.driver import slow_kernels
from tcopt.compiler.passes import run_passes
from tcopt.dialects.graph.core.forms import COUNTS_ON_ATTRIBUTE, WINOGRAD, form_declined
from tcopt.dialects.target import cpu_target_of
from tcopt.dialects.te import api as te
from tcopt.frontends.onnx import import_model
from tcopt.frontends.onnx.building.examples import find_example_model
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.schedules import Schedule
from tcopt.schedules.passes.schedule import SchedulePass, find_schedule
from tcopt.schedules.rules.cpu.roofline import estimate
from tcopt.schedules.rules.rule import RULES, Declined, facts_of, rules_for
from tcopt.support.pipelines.running import new_context
from tcopt.support.pipelines.text import parse_pipeline
from tcopt.support.remarks import Remark, collect_remarks
from tcopt.tools import tcopt_check, tcopt_compile
from tcopt.tools.execution.loop_executor import run_func
from tcopt.tools.profile_table import profile_text

TARGETS = ("haswell", "cortex-a72", "skylake-avx512")


class AsItIs:
    """Rule that accepts every function and leaves its loops unchanged."""

    name = "as-it-is"

    def apply(self, sch: Schedule, facts: object) -> Declined | None:
        return None


class Exotic:
    """Rule for a form that declines every instance."""

    name = "exotic-rule"
    provides = ("exotic",)

    def apply(self, sch: Schedule, facts: object) -> Declined | None:
        return Declined("the moon is full")

    def accepts(self, op: object, facts: object) -> Declined | None:
        return Declined("the moon is full")


@contextmanager
def rules(*own: type) -> Iterator[None]:
    """Apply user-defined rules before all others."""
    with ExitStack() as stack:
        for number, rule in enumerate(own):
            stack.enter_context(RULES.override(("cpu", rule.name), (9999 - number, rule())))
        yield


def module_for(cpu: str) -> ModuleOp:
    """Return an empty module with a CPU target."""
    module = ModuleOp([])
    for each in parse_pipeline(f'set-target{{cpu="{cpu}"}}'):
        each.apply(new_context(), module)
    return module


def told(module: ModuleOp) -> list[Remark]:
    """Return the remarks of the pass `schedule` about slow kernels."""
    with collect_remarks() as remarks:
        SchedulePass().apply(new_context(), module)
    return [remark for remark in remarks if remark.slow]


def one_product() -> onnx.ModelProto:
    net = Network("product")
    y = net.add("MatMul", net.input("x", [64, 256]), net.normal([256, 256], 0.1))
    return net.model(**{y: [64, 256]})


@pytest.mark.parametrize("cpu", TARGETS)
def test_the_estimate_tells_plain_loops_from_those_of_a_rule(cpu):
    target = cpu_target_of(module_for(cpu))
    facts, function = facts_of(target), matmul(64, 256, 128)
    plain = estimate(function, function, facts)
    assert plain is not None and plain.share < 0.1
    assert '"mm": no vectors' in plain.reason
    scheduled = find_schedule(function, rules_for("cpu"), facts)
    assert scheduled is not None
    good = estimate(function, scheduled.func, facts)
    assert good is not None and good.share > 0.15
    assert good.ns < plain.ns / 8


@pytest.mark.parametrize("cpu", TARGETS)
def test_a_heavy_operator_without_a_good_rule_is_told(cpu):
    module = module_for(cpu)
    module.body.block.add_op(matmul(64, 256, 128))
    assert told(module.clone()) == []
    with rules(AsItIs):
        (remark,) = told(module)
    assert (remark.by, remark.subject, remark.missed) == ("as-it-is", "@matmul", True)
    assert "of what the target allows" in remark.message


def test_a_short_kernel_is_not_worth_a_word():
    module = module_for("haswell")
    module.body.block.add_op(matmul(4, 8, 8))
    with rules(AsItIs):
        assert told(module) == []


def test_a_rule_that_was_counted_on_and_declined_is_told():
    module = module_for("haswell")
    function = matmul(64, 256, 128)
    function.attributes[COUNTS_ON_ATTRIBUTE] = ArrayAttr([StringAttr("exotic")])
    module.body.block.add_op(function)
    (remark,) = told(module.clone())
    assert remark.message.endswith("exotic: no rule of the target provides it")
    with rules(Exotic):
        (remark,) = told(module)
    assert remark.message.endswith("exotic: exotic-rule: the moon is full")


def test_passes_hear_of_rules_what_would_be_declined():
    target, op = cpu_target_of(module_for("haswell")), ModuleOp([])
    assert form_declined(WINOGRAD, op, target) is None
    assert form_declined("exotic", op, target) == "target cpu has no schedule rule for exotic"
    with rules(Exotic):
        assert form_declined("exotic", op, target) == "exotic-rule: the moon is full"


@pytest.mark.parametrize("provided", [True, False])
def test_winograd_is_chosen_only_where_a_rule_carries_it_out(monkeypatch, provided):
    if not provided:
        (rule,) = (rule for rule in rules_for("cpu") if rule.name == "cpu-winograd")
        monkeypatch.setattr(rule, "provides", (), raising=False)
    net = Network("conv")
    y = net.conv(net.input("x", [1, 64, 28, 28]), 64, 64)
    module = import_model(net.model(**{y: [1, 64, 28, 28]}))
    graph = next(phase for phase in pipeline("cpu:haswell") if phase.name == "graph")
    with collect_remarks() as remarks:
        run_passes(module, graph.passes)
    assert ("winograd_conv" in str(module)) == provided
    reasons = [remark.message for remark in remarks if remark.by == "winograd" and remark.missed]
    assert reasons == ([] if provided else ["direct: target cpu has no schedule rule for winograd"])


@pytest.mark.nightly
@pytest.mark.parametrize("target", ["cpu:haswell", "cpu:skylake-avx512"])
def test_no_alarm_for_a_network_that_is_scheduled_well(target):
    module = import_model(find_example_model("light_squeezenet"))
    assert slow_kernels(module, pipeline(target)) == []


def test_tools_tell_of_slow_kernels(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "product.onnx"
    onnx.save(one_product(), path)
    output = str(tmp_path / "product.tcm")
    assert tcopt_check.main([str(path), "--kernels"]) == 0
    assert "none is estimated to be far from" in capsys.readouterr().out
    assert tcopt_compile.main([str(path), "-o", output]) == 0
    assert "slow" not in capsys.readouterr().err
    with rules(AsItIs):
        assert tcopt_check.main([str(path), "--kernels"]) == 0
        assert "slow: MatMul_0: as-it-is: est." in capsys.readouterr().out
        assert tcopt_check.main([str(path), "--kernels", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["slow_kernels"]
        assert {each["where"] for each in found} == {"MatMul_0"}
        # The weights were packed for a rule that was not applied.
        assert "the graph relied on a rule for contraction" in found[1]["message"]
        assert tcopt_compile.main([str(path), "-o", output]) == 0
        assert "slow kernel: MatMul_0: est." in capsys.readouterr().err


def test_profiles_mark_slow_kernels():
    feeds = {"x": np.ones((64, 256), np.float32)}
    for own in ((), (AsItIs,)):
        with rules(*own):
            profile = tcopt.compile(one_product(), cache=False, workers=0).profile(feeds, runs=1)
        text = profile_text(profile)
        marked = [entry for entry in profile.calls() if entry.slow]
        assert len(marked) == text.count("of what the target allows") == len(own)
        assert ("as-it-is (!)" in text) == bool(own)


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("element", ["f32", "i8"])
def test_a_product_with_one_column_has_vectors_along_its_sum(cpu, element):
    """The elements of a single column are contiguous, although it is not the last dimension."""
    dtype = np.dtype(np.float32 if element == "f32" else np.int8)
    total = "f32" if element == "f32" else "i32"
    x = te.placeholder((9, 70), element, name="x")
    w = te.placeholder((70, 1), element, name="w")
    k = te.reduce_axis(70, "k")
    y = te.compute(
        (9, 1),
        lambda i, j: te.sum(te.cast(x[i, k], total) * te.cast(w[k, j], total), axis=k),
        name="y",
    )
    function = lower_function(te.func("column", [x, w], [y]))
    scheduled = find_schedule(function, rules_for("cpu"), facts_of(cpu_target_of(module_for(cpu))))
    assert scheduled is not None
    assert any(op.name == "sched.vectorize" for op in scheduled.sequence.walk())
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((9, 70), (70, 1)))
    wide = np.dtype(np.float32 if element == "f32" else np.int32)
    result = run_func(scheduled.func, [a, b, np.zeros((9, 1), wide)])[-1]
    # Small integers, whose sums are exact in any order.
    np.testing.assert_array_equal(result, a.astype(wide) @ b.astype(wide))
