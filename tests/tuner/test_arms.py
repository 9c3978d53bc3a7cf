"""The rules that apply to a task, from its text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.tuner_models import save_product
from tcopt.compiler.options import CompileOptions
from tcopt.frontends.onnx.building.network import Network
from tcopt.schedules import Schedule
from tcopt.schedules.passes.schedule import find_schedule
from tcopt.schedules.rules.rule import RULES, Declined, facts_of, rules_for, target_kind
from tcopt.support.errors import InputError
from tcopt.tuner.arms import arms_of, lowered
from tcopt.tuner.features import NAMES
from tcopt.tuner.measure.building import build
from tcopt.tuner.search.moves import draw_valid
from tcopt.tuner.tasks import tasks_of

TARGET = "cpu:haswell"


def test_rules_of_a_task_have_spaces_features_and_schedules(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    (task,) = tasks_of(save_product(tmp_path / "m.onnx"), CompileOptions(target=TARGET))
    arms = arms_of(task)
    assert arms[0].rule == "cpu-matmul"
    assert len({arm.rule for arm in arms}) == len(arms) > 1
    first = arms[0]
    assert first.space.size > 1000 and first.space.is_valid(first.default)
    function, module = lowered(task.text, task.phases)
    target = module.attributes["tcopt.target"]
    rules, facts = rules_for(target_kind(target)), facts_of(target)
    by_default = find_schedule(function, rules, facts)
    chosen = find_schedule(function, rules, facts, rule=first.rule, choice=first.default)
    assert by_default is not None and chosen is not None
    assert str(by_default.func) == str(chosen.func)
    points = draw_valid(first.space, 200, rng)
    features = first.features(points)
    assert features.shape == (200, len(NAMES)) and np.isfinite(features).all()
    named = {name: features[:, i] for i, name in enumerate(NAMES)}
    for name in ("accumulators", "first.traffic.l1", "iterations.tile", "estimate", "code_size"):
        assert named[name].std() > 0, name


def test_a_rule_that_writes_what_another_does_is_left_out(tmp_path: Path) -> None:
    """The rules of contractions and of reductions tile windows in the same way."""
    net = Network("depthwise")
    x = net.input("x", [1, 32, 7, 7])
    y = net.conv(x, 32, 32, 3, 1, groups=32, bias=False)
    (task,) = (
        t
        for t in tasks_of(net.model(**{y: [1, 32, 7, 7]}), CompileOptions(target=TARGET))
        if "conv" in t.name
    )
    rules = [arm.rule for arm in arms_of(task)]
    assert rules[0] == "cpu-contraction" and "cpu-reduction" not in rules
    assert "cpu-fallback" not in rules


def test_what_is_no_task_is_refused() -> None:
    with pytest.raises(InputError, match=r"a module with one te\.func"):
        lowered("builtin.module {}", (("loop", ""),))


class _Template:
    """A template for any function, used only when schedules are searched."""

    name = "test-template"
    template = True

    def apply(self, sch: Schedule, facts: object) -> Declined | None:
        del sch, facts
        return None


def test_templates_are_searched_and_compiled_but_write_no_default(tmp_path: Path) -> None:
    (task,) = tasks_of(save_product(tmp_path / "m.onnx"), CompileOptions(target=TARGET))
    with RULES.override(("cpu", _Template.name), (1000, _Template())):
        rules = [arm.rule for arm in arms_of(task)]
        assert rules[0] == "cpu-matmul"
        assert rules.index(_Template.name) > rules.index("cpu-reduction")
        assert build(task.text, task.phases, rule=_Template.name).rule == _Template.name
        assert build(task.text, task.phases).rule == "cpu-matmul"
