"""Profiles: every kernel call is timed with its ONNX nodes; traces; incorrect use."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tcopt
from models import convolutional
from models.network import Network
from tcopt.runtime import Model, load
from tcopt.runtime.profile import Profile
from tcopt.support.errors import InputError, UnsupportedError


@pytest.fixture(scope="module")
def model() -> Model:
    return tcopt.compile(convolutional.residual_net(16, 4))


@pytest.fixture(scope="module")
def image() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"image": rng.standard_normal((1, 3, 16, 16)).astype(np.float32)}


@pytest.fixture(scope="module")
def profile(model, image) -> Profile:
    model.threads = 1
    return model.profile(image, runs=3)


def test_calls_name_the_nodes_of_the_model(profile):
    nodes = {node.name for node in convolutional.residual_net(16, 4).graph.node}
    named = {name for entry in profile.calls() for name in entry.nodes}
    assert named
    assert named <= nodes
    convolutions = {n for n in nodes if "conv" in n.lower()}
    assert convolutions <= named


def test_calls_say_what_they_compute(profile):
    for entry in profile.calls():
        assert entry.rule.startswith("cpu-")
        assert entry.ops
        assert entry.threads == 1
        assert entry.calls == 1
        assert entry.gbps > 0
    convolutions = [e for e in profile.calls() if any("conv" in op for op in e.ops)]
    assert all(entry.gflops > 0 for entry in convolutions)


def test_calls_in_a_loop_count_each_turn() -> None:
    """The kernels of a recurrent layer's step are called in each step."""
    net = Network("recurrent", seed=1)
    x = net.input("x", [7, 1, 16])
    weights = [net.normal([1, 4 * 16, 16], 0.3) for _ in range(2)]
    y = net.add("LSTM", x, *weights, hidden_size=16)
    compiled = tcopt.compile(net.model(**{y: [7, 1, 1, 16]}))
    compiled.threads = 1
    entries = compiled.profile({"x": np.ones((7, 1, 16), np.float32)}, runs=3).calls()
    turns = {entry.calls for entry in entries if "packed_matmul" in entry.ops}
    assert turns == {1, 7}


def test_times_follow_one_another_and_fill_the_run(profile):
    assert profile.times.shape == (3, len(profile.kernels), 2)
    flat = profile.times.reshape(3, -1)
    assert (np.diff(flat, axis=1) >= 0).all()
    entries = profile.calls()
    assert sum(e.us for e in entries) <= 1.5 * profile.total_us
    assert sum(e.share for e in entries) == pytest.approx(1)


def test_least_times_make_one_run(profile):
    least = profile.least()
    assert least.runs == 1
    spans = profile.times[:, :, 1] - profile.times[:, :, 0]
    np.testing.assert_array_equal(np.diff(least.times[0], axis=1)[:, 0], spans.min(axis=0))
    assert [e.us for e in least.calls()] == [e.least_us for e in profile.calls()]
    assert least.total_us == pytest.approx(sum(e.us for e in least.calls()))


def test_calls_of_one_kernel_are_added_up(profile):
    merged = profile.by_kernel()
    assert len({e.kernel for e in merged}) == len(merged)
    assert sum(e.calls for e in merged) == len(profile.kernels)
    assert [e.us for e in merged] == sorted((e.us for e in merged), reverse=True)


def test_the_trace_has_an_event_for_each_call_and_run(profile):
    trace = json.loads(json.dumps(profile.chrome_trace()))
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    kernels = [event for event in events if event["cat"] == "kernel"]
    runs = [event for event in events if event["cat"] == "run"]
    assert len(runs) == 3
    assert [e["name"] for e in kernels] == [k.kernel for k in profile.kernels] * 3
    for run, first in zip(runs, kernels[:: len(profile.kernels)], strict=True):
        assert run["ts"] == first["ts"] >= 0
        assert run["dur"] >= first["dur"] >= 0
    assert json.loads(json.dumps(profile.as_json()))["runs"] == 3


def test_profiling_leaves_results_as_they_are(model, image):
    before = model.run(image)[0]
    model.profile(image, runs=1)
    np.testing.assert_array_equal(model.run(image)[0], before)


def test_models_with_open_shapes_are_profiled_for_the_feeds():
    net = Network("open")
    x = net.input("x", ["n"])
    model = tcopt.compile(net.model(**{net.add("Relu", x): ["n"]}))
    for size in (3, 100):
        (entry,) = model.profile({"x": np.zeros(size, np.float32)}, runs=1).kernels
        assert entry.bytes == 8 * size


def test_work_and_bytes_of_a_range_are_those_of_the_feeds():
    net = Network("sized")
    x = net.input("x", ["n", 24])
    model = tcopt.compile(
        net.model(**{net.add("MatMul", x, net.normal([24, 40], 0.2)): ["n", 40]}),
        dims={"n": (1, 64)},
    )
    for size in (2, 64):
        (entry,) = model.profile({"x": np.zeros((size, 24), np.float32)}, runs=1).kernels
        assert entry.origin.work == 2 * 24 * 40 * size
    (call,) = model.explain().as_json()["calls"]
    assert call["work"] == 2 * 24 * 40 * 64


def test_what_cannot_be_profiled(model, image, tmp_path):
    with pytest.raises(InputError, match="at least 1"):
        model.profile(image, runs=0)
    model.save(tmp_path / "net.tcm")
    with pytest.raises(UnsupportedError, match="a model that was loaded"):
        load(tmp_path / "net.tcm").profile(image)
