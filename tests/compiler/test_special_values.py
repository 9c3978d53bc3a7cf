"""Special values: signed zeros, denormals, the largest numbers, infinities and nan."""

from itertools import product

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import tcopt
from tcopt.dialects.graph.elementwise.numerics import saturated

TYPES = {"float": np.float32, "double": np.float64}


def run(body, inputs, outputs, constants=None, target="cpu", **options):
    """Run nodes given as ONNX text on arrays by name; outputs are `type name`."""
    kinds = {np.dtype(np.float16): "float16", np.dtype(np.uint8): "uint8"}
    kinds |= {np.dtype(each): name for name, each in TYPES.items()}
    shape = {name: ",".join(map(str, array.shape)) for name, array in inputs.items()}
    given = ", ".join(f"{kinds[a.dtype]}[{shape[n]}] {n}" for n, a in inputs.items())
    text = f'<ir_version: 10, opset_import: ["" : 21]> g ({given}) => ({outputs}) {{ {body} }}'
    model = onnx.parser.parse_model(text)
    arrays = (constants or {}).items()
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in arrays)
    return tcopt.compile(model, target, cache=False, **options).run(inputs)


def same(found, expected):
    """Equal elements; zeros must agree in sign, and any nan equals any other."""
    signs = np.signbit(found) == np.signbit(expected)
    return (found == expected) & signs | np.isnan(found) & np.isnan(expected)


BOUNDS = [2.0**bits + step for bits in (7, 8, 15, 16, 31, 32, 63, 64) for step in (-1, -0.1, 0, 1)]
CASTS = np.array([0.0, 0.9, 1e-40, 2.0**31 - 128, 1e30, np.inf, np.nan, *BOUNDS])
INTEGERS = {"int8": 3, "uint8": 2, "int16": 5, "uint16": 4,
            "int32": 6, "uint32": 12, "int64": 7, "uint64": 13}  # fmt: skip


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize(("type_", "target"), [("float", "cpu:x86-64"), ("double", "cpu")])
def test_casts_saturate_in_every_lane(type_, target):
    # Three copies, so that a value is both in vectors and in the remainder.
    x = np.tile(np.concatenate([CASTS, -CASTS]), 3)[:-1].astype(TYPES[type_])
    body = "\n".join(f"y{name} = Cast<to = {code}>(x)" for name, code in INTEGERS.items())
    outputs = ", ".join(f"{name}[{len(x)}] y{name}" for name in INTEGERS)
    for name, found in zip(INTEGERS, run(body, {"x": x}, outputs, target=target), strict=True):
        limits = np.iinfo(name)
        exact = [0 if np.isnan(v) else limits.max if v > 2**70 else limits.min if v < -(2**70)
                 else min(max(int(v), limits.min), limits.max) for v in x.tolist()]  # fmt: skip
        np.testing.assert_array_equal(found, np.array(exact, name), err_msg=name)
        np.testing.assert_array_equal(saturated(x, np.dtype(name)), found, err_msg=name)


@pytest.mark.parametrize("type_", TYPES)
def test_remainders_are_exact(type_):
    numbers = [0.0, 1, 0.5, 0.1, 3, 7.5, 828.1, 1e20, 3e38, 1e-40, 1e-45, np.inf, np.nan]
    pairs = list(product([*numbers, *(-n for n in numbers)], repeat=2))
    x, y = np.array(pairs).astype(TYPES[type_]).T.copy()
    outputs = f"{type_}[{len(x)}] z, {type_}[{len(x)}] w"
    z, w = run("z = Mod<fmod = 1>(x, y)\nw = Mod(x, y)", {"x": x, "y": y}, outputs)
    with np.errstate(all="ignore"):
        assert same(z, np.fmod(x, y)).all()
        assert same(w, np.mod(x, y)).all()


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64"])
def test_sine_and_cosine_of_any_size(target):
    rng = np.random.default_rng(0)
    edges = [0.0, -0.0, 1e-40, 2.0**20, 2.0**30, 1e15, 8.657286e15, 3.4028235e38, np.inf, np.nan]
    # 16367173 * 2^72 is the f32 closest to a multiple of pi/2.
    wide = 2.0 ** rng.uniform(-4, 127.9, 2000) * rng.choice([-1, 1], 2000)
    x = np.array([*edges, 16367173 * 2.0**72, *wide]).astype(np.float32)
    outputs = f"float[{len(x)}] s, float[{len(x)}] c"
    found = run("s = Sin(x)\nc = Cos(x)", {"x": x}, outputs, target=target)
    with np.errstate(invalid="ignore"):
        for y, expected in zip(found, (np.sin(np.float64(x)), np.cos(np.float64(x))), strict=True):
            # Within 1.5 ulp, or 3 ulp without fused multiply-add.
            error = np.abs(y - expected) / np.spacing(np.abs(expected).astype(np.float32))
            assert np.nanmax(error) <= 3
            assert (np.isnan(y) == np.isnan(expected)).all()
    assert np.signbit(found[0][1])


def test_signs_of_zeros():
    x = np.array([0.0, -0.0, np.nan] * 3, np.float32)
    names = ("Sign", "Elu", "Sin", "Sqrt", "Round", "Floor")
    body = "\n".join(f"y{name} = {name}(x)" for name in names)
    found = run(body, {"x": x}, ", ".join(f"float[9] y{name}" for name in names))
    assert same(found[0], np.sign(x)).all()
    assert all(same(y, x).all() for y in found[1:])


def test_normalisation_of_tiny_and_huge_rows():
    row = np.array([1, -1, 2, 1])
    x = np.array([row * s for s in (1e-44, 1e-30, 1, 1e30, 0)] + [[np.inf, 1, 0, 0]], np.float32)
    (y,) = run("y = LpNormalization<axis = 1, p = 2>(x)", {"x": x}, "float[6,4] y")
    expected = np.float64(x[:4]) / np.linalg.norm(np.float64(x[:4]), axis=1, keepdims=True)
    np.testing.assert_allclose(y[:4], expected, rtol=1e-6)
    assert not y[4].any()
    assert np.isnan(y[5, 0])
    assert not y[5, 1:].any()


def test_floats_of_16_bits_do_not_overflow_between_ops():
    x = (np.random.default_rng(1).standard_normal((4, 32)) * 400).astype(np.float16)
    body = """m = ReduceMean<keepdims = 1>(x, axes)
        d = Sub(x, m)
        p = Pow(d, two)
        v = ReduceMean<keepdims = 1>(p, axes)
        s = Sqrt(v)
        y = Div(d, s)
        q = ReduceSumSquare<keepdims = 0>(x, axes)
        n = Sqrt(q)
        t = Transpose<perm = [1, 0]>(x)
        a = MatMul(x, t)
        b = Div(a, large)
        w = Softmax<axis = 1>(b)
        c = Clip(x, low, high)
        e = Exp(c)
        f = Log(e)"""
    half = np.float16
    constants = {"axes": np.array([1]), "two": half(2), "large": half(6e4),
                 "low": half(-20), "high": half(40)}  # fmt: skip
    outputs = "float16[4,32] y, float16[4] n, float16[4,4] w, float16[4,32] f"
    y, n, w, f = run(body, {"x": x}, outputs, constants)
    z = np.float64(x)
    centred = z - z.mean(1, keepdims=True)
    scores = z @ z.T / 6e4
    weights = np.exp(scores - scores.max(1, keepdims=True))
    # Half an ulp of the result, because only the result is rounded to 16 bits.
    np.testing.assert_allclose(y, centred / centred.std(1, keepdims=True), rtol=6e-4, atol=1e-6)
    np.testing.assert_allclose(n, np.sqrt((z * z).sum(1)), rtol=6e-4)
    np.testing.assert_allclose(w, weights / weights.sum(1, keepdims=True), rtol=6e-4, atol=1e-6)
    np.testing.assert_allclose(f, np.clip(z, -20, 40), rtol=6e-4)


@pytest.mark.parametrize("accuracy", ["strict", "default"])
def test_integers_that_are_quantised_again(accuracy):
    q = np.arange(256, dtype=np.uint8)
    body = """x = DequantizeLinear(q, s, z)
        a, t, p = DynamicQuantizeLinear(x)
        y = DequantizeLinear(q, s2, z)
        r = Relu(y)
        b = QuantizeLinear(r, t2, z2)
        c = QuantizeLinear(x, t3, z)"""
    one = np.float32
    scales = {"s": one(0.0113246), "s2": one(0.03), "t2": one(0.02), "t3": one(0.0226492)}
    constants = {**scales, "z": np.uint8(125), "z2": np.uint8(3)}
    outputs = "uint8[256] a, float t, uint8 p, uint8[256] b, uint8[256] c"
    a, t, p, b, c = run(body, {"q": q}, outputs, constants, accuracy=accuracy)

    def quantised(x, scale, zero):
        return np.clip(np.rint(x / scale) + zero, 0, 255)

    x, y = ((np.float32(q) - 125) * scales[name] for name in ("s", "s2"))
    np.testing.assert_array_equal(a, quantised(x, t, float(p)))
    np.testing.assert_array_equal(b, quantised(np.maximum(y, 0), scales["t2"], 3))
    np.testing.assert_array_equal(c, quantised(x, scales["t3"], 125))
