"""Operators that draw random numbers: their distributions, and reproducibility of runs."""

from __future__ import annotations

from math import erf, sqrt

import numpy as np
import onnx
import onnx.parser
import pytest
from xdsl.dialects.builtin import i64
from xdsl.dialects.test import TestOp as SourceOp

import tcopt
from tcopt.backends.llvm.machine.host import runnable_targets
from tcopt.dialects.graph.core.random_bits import RandomBitsOp, threefry
from tcopt.dialects.graph.core.types import tensor
from tcopt.frontends.onnx import import_model
from tcopt.runtime.device.opencl import opencl_device
from tcopt.support.errors import InputError, UnsupportedError

LIMIT = 2.5
"""Threshold of the Kolmogorov-Smirnov statistic: exceeded with probability 1e-5; seeds are
fixed."""


def model_of(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 22]>\ng {text}')


def distance(values: np.ndarray, cumulative) -> float:
    """Return the Kolmogorov-Smirnov statistic times the square root of the sample size."""
    x = np.sort(values.reshape(-1).astype(np.float64))
    expected, count = np.array([cumulative(v) for v in x]), len(x)
    below = np.arange(count) / count
    return max(np.max(expected - below), np.max(below + 1 / count - expected)) * sqrt(count)


def normal(v: float) -> float:
    return 0.5 * (1 + erf(v / sqrt(2)))


def test_known_answers():
    """Test vectors of the paper's own code."""
    source = SourceOp(result_types=[tensor((1,), i64)])
    for second, word in enumerate((0x6B200159, 0x99BA4EFE)):
        op = RandomBitsOp(source.results[0], (1,), second=bool(second))
        op.verify()
        assert int(op.evaluate(np.zeros(1, np.int64))[0][0]) == word
    ones = np.full(1, 2**32 - 1, np.uint32)
    words = threefry(ones[0], ones[0], ones, ones)
    assert [int(word[0]) for word in words] == [0x1CB996FC, 0xBB002BE7]


ALL = """(double[4000] d, float[2, 3] logs, float[4000] p, bool t) => (
    float[40, 100] u, float[40, 100] n, double[4000] ud, double[4000] nd, float16[4000] uh,
    int32[2, 4000] c, float[4000] b, float[4000] kept, bool[4000] mask) {
    u = RandomUniform<shape = [40, 100], low = -1.0, high = 3.0>()
    n = RandomNormal<shape = [40, 100], mean = 1.0, scale = 2.0>()
    ud = RandomUniformLike(d)
    nd = RandomNormalLike(d)
    uh = RandomUniform<shape = [4000], dtype = 10>()
    c = Multinomial<sample_size = 4000>(logs)
    b = Bernoulli(p)
    r = Constant<value_float = 0.25>()
    kept, mask = Dropout(p, r, t)
}"""
FEEDS = {
    "d": np.zeros(4000),
    "logs": np.log(np.array([[0.1, 0.2, 0.7], [1e-30, 2, 2]], np.float32)),
    "p": np.full(4000, 0.3, np.float32),
    "t": np.array(True),
}


def run(seed: int | None = None, target: str = "cpu", **options) -> list[np.ndarray]:
    model = tcopt.compile(model_of(ALL), target)
    for name, value in options.items():
        setattr(model, name, value)
    return model.run(FEEDS, seed=seed)


@pytest.mark.nightly
def test_distributions():
    u, n, ud, nd, uh, c, b, kept, mask = run(seed=11)
    assert distance((u + 1) / 4, lambda v: v) < LIMIT and u.min() >= -1 and u.max() < 3
    assert distance((n - 1) / 2, normal) < LIMIT
    assert distance(ud, lambda v: v) < LIMIT and ud.max() < 1
    assert distance(nd, normal) < LIMIT
    assert distance(uh, lambda v: v) < LIMIT and uh.max() < 1
    for sample, shares in zip(c, ((0.1, 0.2, 0.7), (0, 0.5, 0.5)), strict=True):
        found = np.bincount(sample, minlength=3) / sample.size
        np.testing.assert_allclose(found, shares, atol=4 * 0.5 / sqrt(sample.size))
    assert set(np.unique(b)) == {0, 1} and abs(b.mean() - 0.3) < 4 * 0.46 / sqrt(b.size)
    assert abs(mask.mean() - 0.75) < 4 * 0.44 / sqrt(mask.size)
    np.testing.assert_allclose(kept, np.where(mask, FEEDS["p"] / 0.75, 0), rtol=1e-6)


@pytest.mark.nightly
def test_moments_and_independence():
    """Correlations between neighbours, rows and nodes are small."""
    u, n, ud, nd, *_ = run(seed=12)
    z, count = (n.reshape(-1).astype(np.float64) - 1) / 2, n.size
    for power, expected, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(z**power) - expected) < 4 * sqrt(spread / count)
    for lag in (1, 2, 3, 4, 7, 8, 16, 64, 100):
        assert abs(np.mean(z[lag:] * z[:-lag])) < 4 / sqrt(count - lag)
    others = (u.reshape(-1) - 1) / sqrt(4 / 3), (ud - 0.5) * sqrt(12), nd
    for other in others:
        assert abs(np.mean(z * other)) < 4 / sqrt(count)
    bits = (ud * 2**53).astype(np.int64)
    for bit in range(53):
        assert abs(np.mean(bits >> bit & 1) - 0.5) < 4.5 * 0.5 / sqrt(count), bit


def test_runs_differ_unless_seeded(tmp_path):
    model = tcopt.compile(model_of(ALL))
    first, second = model.run(FEEDS), model.run(FEEDS)
    assert all(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    seeded, again, other = (model.run(FEEDS, seed=s) for s in (7, 7, 8))
    model.threads = 1
    alone = model.run(FEEDS, seed=7)
    model.save(tmp_path / "model.tcm")
    loaded = tcopt.load(tmp_path / "model.tcm").run(FEEDS, seed=7)
    for a, *same, b in zip(seeded, again, alone, loaded, other, strict=True):
        assert not np.array_equal(a, b)
        for c in same:
            np.testing.assert_array_equal(a, c)
    assert [spec.name for spec in model.inputs] == list(FEEDS)


@pytest.mark.nightly
@pytest.mark.parametrize("machine", ["x86-64", "haswell"])
def test_targets_agree(machine):
    if machine not in runnable_targets():
        pytest.skip(f"code for {machine} does not run here")
    for a, b in zip(run(seed=3, target=f"cpu:{machine}"), run(seed=3), strict=True):
        # Integers are the same; logarithms may differ by one ulp.
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_seeds_of_nodes():
    text = """() => (float[8] a, float[8] b, float[8] c, float[8] d) {
        a = RandomUniform<shape = [8], seed = 1.5>() b = RandomUniform<shape = [8], seed = 1.5>()
        c = RandomUniform<shape = [8], seed = 2.5>() d = RandomUniform<shape = [8]>() }"""
    model = tcopt.compile(model_of(text))
    (a, b, c, d), (a2, _, c2, d2) = model.run({}), model.run({})
    np.testing.assert_array_equal([a, a, c], [a2, b, c2])
    assert not np.array_equal(a, c) and not np.array_equal(d, d2)


def test_dropout():
    text = """(float[1000] x, float r, bool t) => (float[1000] y, bool[1000] m)
        { y, m = Dropout(x, r, t) }"""
    model, x = tcopt.compile(model_of(text)), np.arange(1, 1001, dtype=np.float32)
    y, m = model.run({"x": x, "r": np.float32(0.5), "t": np.array(True)})
    np.testing.assert_array_equal(y, np.where(m, x * 2, 0))
    assert 400 < m.sum() < 600
    y, m = model.run({"x": x, "r": np.float32(0.5), "t": np.array(False)})
    np.testing.assert_array_equal(y, x)
    assert m.all()
    y, m = model.run({"x": x, "r": np.float32(1), "t": np.array(True)})
    assert not y.any() and not m.any()


def test_loops():
    """Each unrolled step draws its own values; a loop's steps would all draw the same."""
    text = """(float[4] x) => (float[n, 4] y) <int64 n = {{{steps}}}> {{ z, y = Loop(n, , x) <body =
        b (int64 i, bool c, float[4] a) => (bool d, float[4] e, float[4] f)
        {{ d = Identity(c) e = Identity(a) f = RandomUniformLike(a) }}> }}"""
    (y,) = tcopt.compile(model_of(text.format(steps=3))).run({"x": np.zeros(4, np.float32)})
    assert len(np.unique(y)) == 12
    with pytest.raises(UnsupportedError, match="without a seed in a loop"):
        import_model(model_of(text.format(steps=40)))


def test_stages_draw_their_own():
    text = """(float[9] x) => (float[2, n] y, float[1, n] z) {
        p = NonZero(x) q = Cast<to = 1>(p) z = RandomUniformLike(q) r = RandomUniformLike(q)
        y = Concat<axis = 0>(z, r) }"""
    model, x = tcopt.compile(model_of(text)), np.ones(9, np.float32)
    y, z = model.run({"x": x}, seed=2)
    assert len(np.unique(y)) == 18
    np.testing.assert_array_equal(y[:1], z)
    np.testing.assert_array_equal(y, model.run({"x": x}, seed=2)[0])


@pytest.mark.parametrize("seed", [1.5, "a", True, 2**64])
def test_seeds_that_are_none(seed):
    with pytest.raises(InputError, match="seed"):
        tcopt.compile(model_of("() => (float[2] y) { y = RandomUniform<shape = [2]>() }")).run(
            {}, seed=seed
        )


@pytest.mark.nightly
def test_on_a_device():
    pytest.importorskip("pyopencl")
    text = """(float[300] p) => (float[300] u, float[300] b)
        { u = RandomUniformLike(p) b = Bernoulli(p) }"""
    feeds = {"p": np.full(300, 0.5, np.float32)}
    model = model_of(text)
    try:
        opencl_device()
    except UnsupportedError as error:
        pytest.skip(error.message)
    device = tcopt.compile(model, "opencl")
    for a, b in zip(
        device.run(feeds, seed=9), tcopt.compile(model).run(feeds, seed=9), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(device.run(feeds)[0], device.run(feeds)[0])
