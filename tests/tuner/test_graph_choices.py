"""Choices for graph operators: found, searched, and applied from a lock file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import tcopt
from models.quantised_models import quantised
from tcopt.compiler.options import CompileOptions
from tcopt.compiler.tuned import find_lock
from tcopt.frontends.onnx.building.network import Network
from tcopt.support.errors import UnsupportedError
from tcopt.tuner.lock import LockWriter, TunedOperator
from tcopt.tuner.operators import Operator, operators_of
from tcopt.tuner.tasks import tasks_of
from tcopt.tuner.whole_models.acceptance import Verdict
from tcopt.tuner.whole_models.graph_search import GraphSearch, heavy_operators

TARGET = "cpu:skylake-avx512"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A convolution that uses Winograd by default, and a 1x1 convolution."""
    net = Network("two")
    x = net.input("x", [1, 32, 20, 20])
    y = net.add("Relu", net.conv(x, 32, 32, 3, 1, bias=False))
    path = tmp_path / "two.onnx"
    onnx.save(net.model(**{net.conv(y, 32, 16, 1, 1, bias=False): [1, 16, 20, 20]}), path)
    return path


def _lock(path: Path, *chosen: TunedOperator) -> Path:
    writer = LockWriter("two")
    for each in chosen:
        writer.add_operator(each)
    writer.write(path)
    return path


def _texts(model: Path | onnx.ModelProto, path: Path | None, target: str = TARGET) -> str:
    lock = None if path is None else find_lock(model, path)
    return "".join(t.te_text for t in tasks_of(model, CompileOptions(target=target, lock=lock)))


def test_operators_have_the_choices_that_passes_have(model: Path) -> None:
    first, second = operators_of(model, CompileOptions(target=TARGET))
    assert {"winograd": 0} in first.choices and {"winograd": 4} in first.choices
    assert not any("winograd" in choice for choice in second.choices)
    assert {"block": 0} in second.choices and {"fuse": 0} in second.choices
    assert first.nodes and first.nodes != second.nodes


def test_a_choice_reaches_the_pass_that_obeys_it(model: Path, tmp_path: Path) -> None:
    """A choice reaches its pass even if earlier passes replace the operator."""
    first, _ = operators_of(model, CompileOptions(target=TARGET))
    texts = {
        tile: _texts(
            model,
            _lock(
                tmp_path / f"{tile}.mlir",
                TunedOperator(first.key, first.target, {"winograd": tile}),
            ),
        )
        for tile in (0, 2, 4)
    }
    assert len(set(texts.values())) == 3
    assert "table.scale" not in texts[0] and "table.scale" in texts[2]
    alone = TunedOperator(first.key, first.target, {"winograd": 0, "fuse": 0})
    assert _texts(model, _lock(tmp_path / "alone.mlir", alone)) != texts[0]


def _convolution(kernel: int, stride: int, *, transposed: bool) -> onnx.ModelProto:
    net = Network("one")
    x = net.input("x", [1, 32, 20, 20])
    w = net.normal([32, 32, kernel, kernel], 0.1)
    pads = [1, 1, 1, 1]
    if transposed:
        y = net.add("ConvTranspose", x, w, strides=[stride] * 2, pads=pads)
        size = (20 - 1) * stride - 2 + kernel
    else:
        y = net.add("Conv", x, w, strides=[stride] * 2, pads=pads)
        size = (20 + 2 - kernel) // stride + 1
    return net.model(**{y: [1, 32, size, size]})


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize(
    ("source", "target", "tiles"),
    [
        (_convolution(5, 1, transposed=False), TARGET, {2, 0}),
        (_convolution(4, 2, transposed=False), TARGET, {2, 3, 5, 0}),
        (_convolution(4, 2, transposed=True), TARGET, {2, 3, 0}),
        (_convolution(5, 2, transposed=False), TARGET, set[int]()),
        (quantised((16, 32), 12, kernel=3, stride=1), "cpu:haswell", {2, 4, 0}),
    ],
)
def test_tiles_are_offered_to_all_filters_that_have_them(
    source: onnx.ModelProto, target: str, tiles: set[int], tmp_path: Path
) -> None:
    """The offered choices make separate kernels, which use Winograd tiles."""
    operator = operators_of(source, CompileOptions(target=target))[0]
    offered = {choice["winograd"] for choice in operator.choices if "winograd" in choice}
    assert offered == tiles
    texts: dict[int, str] = {}
    for tile in tiles:
        chosen = TunedOperator(operator.key, operator.target, {"winograd": tile})
        texts[tile] = _texts(source, _lock(tmp_path / f"{tile}.mlir", chosen), target)
        assert ("table.scale" in texts[tile]) == (tile > 0)
    assert len(set(texts.values())) == len(tiles)


def test_a_compiled_model_obeys_and_computes_the_same(model: Path, tmp_path: Path) -> None:
    first, _ = operators_of(model, CompileOptions())
    beside = model.with_suffix(".tuned.mlir")
    x = np.random.default_rng(0).standard_normal((1, 32, 20, 20)).astype(np.float32)
    before = tcopt.compile(model)
    tile = (
        0 if "table.scale" in "".join(t.te_text for t in tasks_of(model, CompileOptions())) else 2
    )
    _lock(beside, TunedOperator(first.key, first.target, {"winograd": tile}))
    after = tcopt.compile(model)
    kernels = [{entry.kernel for entry in m.profile({"x": x}).by_kernel()} for m in (before, after)]
    assert kernels[0] != kernels[1]
    (one,), (other,) = before.run({"x": x}), after.run({"x": x})
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def _verdict(speed: float) -> Verdict:
    return Verdict(speed, speed - 0.005, speed + 0.005, 1.0, 1 / speed, 12)


class _Models:
    """Simulated models whose speed is the product of the choices' gains."""

    def __init__(self, gains: dict[tuple[str, str, int], float]):
        self.gains = gains
        self.compared = 0

    def speed(self, chosen: Sequence[TunedOperator]) -> float:
        found = 1.0
        for each in chosen:
            for name, value in each.choice.items():
                found *= self.gains.get((each.key, name, int(value)), 1.0)
        return found

    def kernels(self, chosen: Sequence[TunedOperator]) -> frozenset[str]:
        told = [f"{c.key} {dict(c.choice)}" for c in chosen if self.speed([c]) != 1.0]
        return frozenset(told)

    def compare(self, old: Sequence[TunedOperator], new: Sequence[TunedOperator]) -> Verdict:
        self.compared += 1
        if any(c.choice == {"panel": 99} for c in new):
            raise UnsupportedError("no such panel")
        return _verdict(self.speed(new) / self.speed(old))


def _operator(key: str, *choices: dict[str, int]) -> Operator:
    return Operator(key, "t", (key,), choices)


def test_what_makes_the_model_faster_is_kept() -> None:
    gains = {("a", "winograd", 2): 1.1, ("a", "winograd", 4): 1.3, ("a", "block", 0): 0.8}
    gains |= {("b", "panel", 32): 1.005, ("b", "panel", 99): 2.0}
    models, told = _Models(gains), list[str]()
    search = GraphSearch(models.kernels, models.compare, told.append)
    first = _operator("a", {"winograd": 2}, {"winograd": 4}, {"block": 0}, {"fuse": 0})
    found = search.run([first, _operator("b", {"panel": 32}, {"panel": 99})], 100.0)
    assert [(each.key, dict(each.choice)) for each in found] == [("a", {"winograd": 4})]
    assert found[0].gain == pytest.approx(1.3 / 1.1)
    assert models.compared == 5  # Choices that do not change a kernel are not compared.
    assert any("no such panel" in line for line in told)


def test_time_and_interrupts_end_it() -> None:
    models = _Models({("a", "winograd", 2): 1.1, ("a", "winograd", 4): 1.3})
    now = iter(range(10))
    search = GraphSearch(models.kernels, models.compare, print, clock=lambda: float(next(now)))
    operator = _operator("a", {"winograd": 2}, {"winograd": 4})
    assert [dict(each.choice) for each in search.run([operator], 2.0)] == [{"winograd": 2}]

    def interrupt(old: object, new: object) -> Verdict:
        raise KeyboardInterrupt

    search = GraphSearch(models.kernels, interrupt, print)
    assert search.run([operator], 10.0) == [] and search.interrupted


def test_operators_that_take_long_come_first(model: Path) -> None:
    first, second = operators_of(model, CompileOptions(target=TARGET))
    tasks = tasks_of(model, CompileOptions(target=TARGET))
    slow = [replace(t, ns=99.0 if set(t.nodes) & set(second.nodes) else 1.0) for t in tasks]
    assert heavy_operators([first, second], slow) == [second]


_REDUCTIONS = {
    "ReduceSum": lambda x: x.sum((0, 2)),
    "ReduceMean": lambda x: x.mean((0, 2)),
    "ReduceMax": lambda x: x.max((0, 2)),
    "ReduceL1": lambda x: abs(x).sum((0, 2)),
    "ReduceL2": lambda x: np.sqrt((x**2).sum((0, 2))),
    "ReduceSumSquare": lambda x: (x**2).sum((0, 2)),
    "ReduceLogSum": lambda x: np.log(x.sum((0, 2))),
}


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("kind", _REDUCTIONS)
def test_a_long_reduction_may_be_in_parts(kind: str, tmp_path: Path) -> None:
    """Chosen from a lock file, it has one more kernel, and the same results."""
    net = Network("long", opset=18)
    x = net.input("x", [2, 3, 8192])
    path = tmp_path / "long.onnx"
    onnx.save(net.model(**{net.add(kind, x, net.ints(0, 2), keepdims=0): [3]}), path)
    (operator,) = operators_of(path, CompileOptions())
    assert {"parts": 4} in operator.choices and {"parts": 64} not in operator.choices
    chosen = TunedOperator(operator.key, operator.target, {"parts": 4})
    lock = find_lock(path, _lock(path.with_suffix(".tuned.mlir"), chosen))
    assert len(tasks_of(path, CompileOptions(lock=lock))) > len(tasks_of(path, CompileOptions()))
    feeds = {"x": np.random.default_rng(5).uniform(0.5, 1.5, (2, 3, 8192)).astype(np.float32)}
    (tuned,) = tcopt.compile(path).run(feeds)
    np.testing.assert_allclose(tuned, _REDUCTIONS[kind](feeds["x"]), rtol=1e-5)
