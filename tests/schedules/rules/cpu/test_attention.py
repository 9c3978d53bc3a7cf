"""Two products with operations on whole rows between, by `cpu-attention`, against numpy."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import onnx.parser
import pytest
from numpy.typing import NDArray

import tcopt
from checks.cpu_kernels import AVX2, data, everything_parallel, run, scheduled
from tcopt.dialects.te import api as te
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.support.machines.row_strips import RowStrips

F64 = NDArray[np.float64]


def _attention(q: te.Tensor, k: te.Tensor, v: te.Tensor, mask: te.Tensor) -> te.Tensor:
    """softmax(q k + mask) v, with heads moved next to the columns."""
    heads, rows, depth = q.shape
    keys, columns = k.shape[-1], v.shape[-1]
    c, m, s, t = (
        te.reduce_axis(n, x) for n, x in zip((depth, keys, keys, keys), "cmst", strict=True)
    )
    scores = te.compute(
        (heads, rows, keys), lambda h, i, j: te.sum(q[h, i, c] * k[h, c, j], axis=c), name="scores"
    )
    masked = te.compute(
        (heads, rows, keys), lambda h, i, j: scores[h, i, j] + mask[i, j], name="masked"
    )
    top = te.compute((heads, rows), lambda h, i: te.max(masked[h, i, m], axis=m), name="top")
    powers = te.compute(
        (heads, rows, keys), lambda h, i, j: te.exp(masked[h, i, j] - top[h, i]), name="powers"
    )
    total = te.compute((heads, rows), lambda h, i: te.sum(powers[h, i, s], axis=s), name="total")
    weights = te.compute(
        (heads, rows, keys), lambda h, i, j: powers[h, i, j] / total[h, i], name="weights"
    )
    product = te.compute(
        (heads, rows, columns),
        lambda h, i, j: te.sum(weights[h, i, t] * v[h, t, j], axis=t),
        name="product",
    )
    return te.compute((rows, heads, columns), lambda i, h, j: product[h, i, j], name="stored")


def _expected(q: F64, k: F64, v: F64, mask: F64) -> F64:
    scores = q @ k + mask
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return ((powers / powers.sum(-1, keepdims=True)) @ v).swapaxes(0, 1)


def _arrays(heads: int, rows: int, keys: int, depth: int, columns: int) -> list[np.ndarray]:
    shapes = [(heads, rows, depth), (heads, depth, keys), (heads, keys, columns), (rows, keys)]
    return [data(*shape, seed=n) for n, shape in enumerate(shapes)]


@pytest.mark.parametrize(
    ("shape", "strip", "copies", "parallel"),
    [
        ((2, 13, 21, 5, 9), 0, 0, True),  # no extent is a multiple of a tile
        ((1, 40, 64, 16, 32), 2, 0, False),
        ((2, 30, 512, 64, 16), -1, 1, True),  # rows of the matrices conflict in L1: copies
    ],
)
def test_strips(shape, strip, copies, parallel):
    """Strips of rows with tails, and copied panels."""

    def choose(rules):
        rule, space = next((r, s) for r, s in rules if r.name == "cpu-attention")
        knobs = {knob.name: knob.values for knob in space.knobs}
        strips = knobs["strip"]
        leading = {
            "strip": strips[min(strip, len(strips) - 1)],
            "copies": copies if copies in knobs["copies"] else 0,
        }
        return rule.name, space.complete(leading)

    arrays = _arrays(*shape)
    heads, rows, _, _, columns = shape
    with everything_parallel(parallel):
        (result,) = run(arrays, _attention, [data(rows, heads, columns)], 256, choose)
    expected = _expected(*(each.astype(np.float64) for each in arrays))
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)


def test_rule():
    """The rule schedules attention by default."""
    _, rule = scheduled(_arrays(2, 64, 64, 32, 32), _attention, AVX2)
    assert rule == "cpu-attention"


def test_rows_that_depend_on_other_rows():
    """A normalisation along the other axis needs all rows, so the rule declines."""

    def columns_normalised(q: te.Tensor, k: te.Tensor, v: te.Tensor) -> te.Tensor:
        rows, depth = q.shape
        keys, columns = v.shape
        c, i, t = te.reduce_axis(depth, "c"), te.reduce_axis(rows, "i"), te.reduce_axis(keys, "t")
        scores = te.compute(
            (rows, keys), lambda r, j: te.sum(q[r, c] * k[c, j], axis=c), name="scores"
        )
        total = te.compute((keys,), lambda j: te.sum(te.exp(scores[i, j]), axis=i), name="total")
        weights = te.compute(
            (rows, keys), lambda r, j: te.exp(scores[r, j]) / total[j], name="weights"
        )
        return te.compute(
            (rows, columns), lambda r, j: te.sum(weights[r, t] * v[t, j], axis=t), name="product"
        )

    arrays = [data(32, 16), data(16, 64), data(64, 32)]
    _, rule = scheduled(arrays, columns_normalised, AVX2)
    assert rule != "cpu-attention"


def test_estimates():
    """Short rows stay in L2 either way; strips save transfers of long ones."""
    facts = CpuFacts(vector_bits=256, l1=32 << 10, l2=512 << 10, l3=32 << 20)
    long = RowStrips(batch=12, rows=2048, keys=2048, depth=64, columns=64, bytes=4)
    choices = product(long.candidates(facts), (0, 1))
    best = min(float(long.strip_cycles(facts, *choice)) for choice in choices)
    assert best < float(long.separate_cycles(facts))
    short = RowStrips(batch=1, rows=32, keys=32, depth=64, columns=64, bytes=4)
    assert float(short.separate_cycles(facts)) <= float(short.strip_cycles(facts, 8))


def test_range_of_rows():
    """One program serves any number of rows of a range; scores of the upper bound exceed L2."""
    heads, width, keys = 16, 16, 192
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        attention (float[{heads}, n, {width}] q, float[{heads}, {width}, {keys}] k,
                   float[{heads}, {keys}, {width}] v) => (float[{heads}, n, {width}] y)
        <float scale = {{0.25}}> {{
          scores = MatMul(q, k)
          scaled = Mul(scores, scale)
          weights = Softmax<axis = -1>(scaled)
          y = MatMul(weights, v)
        }}"""
    )
    program = tcopt.compile(model, dims={"n": (1, 192)})
    k, v = data(heads, width, keys, seed=1), data(heads, keys, width, seed=2)
    for n in (1, 17, 192):
        q = data(heads, n, width)
        (result,) = program.run({"q": q, "k": k, "v": v})
        q64, k64, v64 = (each.astype(np.float64) for each in (q, k, v))
        expected = _expected(q64 / math.sqrt(width), k64, v64, np.zeros((1, keys)))
        np.testing.assert_allclose(result, expected.swapaxes(0, 1), rtol=2e-5, atol=2e-5)
