"""The rules that take a task, from its text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tcopt.schedules.passes.schedule import find_schedule
from tcopt.schedules.rules.rule import facts_of, rules_for, target_kind
from tcopt.support.errors import InputError
from tcopt.tuner.arms import arms_of, lowered
from tcopt.tuner.features import NAMES
from tcopt.tuner.search.moves import draw_valid
from tcopt.tuner.tasks import tasks_of
from tuner_models import save_product

TARGET = "cpu:haswell"


def test_rules_of_a_task_have_spaces_features_and_schedules(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    (task,) = tasks_of(save_product(tmp_path / "m.onnx"), TARGET)
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


def test_what_is_no_task_is_refused() -> None:
    with pytest.raises(InputError, match=r"a module with one te\.func"):
        lowered("builtin.module {}", (("loop", ""),))
