"""Kernels as tasks: equality, inputs, and weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx.parser
import pytest

import tcopt
from tcopt.compiler.options import CompileOptions
from tcopt.tuner.arguments import INPUT, OUTPUT, WEIGHT
from tcopt.tuner.measure.building import build
from tcopt.tuner.measure.outcomes import INVALID, CandidateFailed
from tcopt.tuner.measure.reference import reference_of
from tcopt.tuner.measure.sequences import check_applies
from tcopt.tuner.measure.values import make_values
from tcopt.tuner.tasks import Task, tasks_of, with_times

CPU = "cpu:haswell"


def model(nodes: str, initializers: Sequence[tuple[str, tuple[int, ...]]] = ()) -> onnx.ModelProto:
    """A model with two results, of `x` and of `z`."""
    found = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
    g (float[24, 40] x, float[40, 48] z) => (float[24, 48] y) {{ {nodes} }}""")
    for name, shape in initializers:
        value = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        found.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    return found


PRODUCT = model("h = MatMul(x, w) y = Relu(h)", [("w", (40, 48))])


def product_of(tasks: Sequence[Task]) -> Task:
    return next(task for task in tasks if "matmul" in task.name)


def test_a_task_knows_what_is_a_weight():
    task = product_of(tasks_of(PRODUCT, CompileOptions(target=CPU)))
    assert [a.role for a in task.arguments] == [INPUT, WEIGHT, OUTPUT]
    assert task.nodes == ("MatMul:h", "Relu:y") and task.calls == 1
    assert task.work >= 2 * 24 * 40 * 48 and task.bytes == 4 * (24 * 40 + 40 * 48 + 24 * 48)
    other = product_of(tasks_of(model("h = MatMul(x, z) y = Relu(h)"), CompileOptions(target=CPU)))
    assert [a.role for a in other.arguments][-1] == OUTPUT
    assert WEIGHT not in [a.role for a in other.arguments]


def test_equal_kernels_are_one_task_whatever_they_are_called_and_whoever_asks():
    twice = model(
        "a = MatMul(x, w) b = Relu(a) c = MatMul(b, v) d = MatMul(c, w) y = Relu(d)",
        [("w", (40, 48)), ("v", (48, 40))],
    )
    tasks = tasks_of(twice, CompileOptions(target=CPU))
    product = next(t for t in tasks if t.nodes[:2] == ("MatMul:a", "Relu:b"))
    assert product.calls == 2 and "MatMul:d" in product.nodes
    assert product.key == product_of(tasks_of(PRODUCT, CompileOptions(target=CPU))).key
    # The lock file is used when compiling without clocks.
    plain = product_of(tasks_of(PRODUCT, CompileOptions(target=CPU)))
    assert plain.key == product.key and plain.target_key == product.target_key
    machine = product_of(tasks_of(PRODUCT, CompileOptions(target="cpu:x86-64")))
    assert machine.target_key != product.target_key


def test_an_anchor_leaves_epilogues_out():
    plain = product_of(tasks_of(PRODUCT, CompileOptions(target=CPU)))
    other = product_of(
        tasks_of(
            model("h = MatMul(x, w) y = Sigmoid(h)", [("w", (40, 48))]), CompileOptions(target=CPU)
        )
    )
    assert plain.key != other.key and plain.anchor == other.anchor


def test_tasks_weigh_what_a_profile_says():
    compiled = tcopt.compile(PRODUCT, CPU, cache=False)
    feeds = {s.name: np.ones(s.shape, np.float32) for s in compiled.inputs}  # pyright: ignore
    tasks = with_times(tasks_of(PRODUCT, CompileOptions(target=CPU)), compiled.profile(feeds, 5))
    assert all(task.ns > 0 for task in tasks)
    assert [t.weight for t in tasks] == sorted((t.weight for t in tasks), reverse=True)


def test_the_reference_is_more_precise_than_what_it_judges():
    task = product_of(tasks_of(PRODUCT, CompileOptions(target=CPU)))
    found = reference_of(task.text, task.arguments)
    for kind, (result,) in enumerate(found.expected):
        x, w = (make_values(a.shape, a.dtype, n, kind) for n, a in enumerate(task.arguments[:2]))
        # Weights are packed in panels of columns.
        product = np.concatenate([x.astype(np.float64) @ panel for panel in w], axis=1)
        np.testing.assert_allclose(result, np.maximum(product, 0)[:, :48], rtol=1e-12)
        assert result.dtype == np.float64


def test_values_are_the_same_everywhere():
    assert make_values((3,), "float32", 1, 0).tolist() == pytest.approx(
        make_values((9,), "float32", 1, 0)[:3].tolist()
    )
    signed, positive = (make_values((1000,), "float32", 0, kind) for kind in (0, 1))
    assert -1 <= signed.min() < -0.9 and 0.9 < signed.max() <= 1
    assert 0.25 <= positive.min() < 0.3 and 1.2 < positive.max() <= 1.25
    assert not np.array_equal(signed, make_values((1000,), "float32", 1, 0))
    assert make_values((100,), "bfloat16", 0, 0).dtype.name == "bfloat16"
    assert set(make_values((100,), "bool", 0, 0).tolist()) == {True, False}
    assert make_values((1000,), "uint8", 0, 0).max() < 100


def test_a_candidate_is_what_its_rule_makes_of_its_choice():
    task = product_of(tasks_of(PRODUCT, CompileOptions(target=CPU)))
    default = build(task.text, task.phases)
    assert default.rule == "cpu-matmul" and default.data and default.seconds > 0
    again = build(task.text, task.phases, sequence=default.sequence)
    assert again.digest == default.digest
    fallback = build(task.text, task.phases, "cpu-fallback", {})
    assert fallback.digest != default.digest and fallback.rule == "cpu-fallback"
    check_applies(task.te_text, default.sequence)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rule": "nobody"}, "no schedule rule 'nobody'"),
        ({"rule": "cpu-winograd"}, "declines"),
        ({"rule": "cpu-matmul", "choice": {"odd": 1}}, "no knob is named 'odd'"),
        ({"sequence": "sched.sequence @s for @f { sched.nothing }"}, "sched.nothing"),
        ({"sequence": "builtin.module {}"}, "a schedule must be one sched.sequence"),
        ({"sequence": 'sched.sequence @s for @f { %b = sched.get_block "no" }'}, "no block"),
    ],
)
def test_a_candidate_that_is_none_is_invalid(given: dict[str, object], message: str):
    task = product_of(tasks_of(PRODUCT, CompileOptions(target=CPU)))
    with pytest.raises(CandidateFailed, match=message) as caught:
        build(task.text, task.phases, **given)  # pyright: ignore
    assert caught.value.status == INVALID
