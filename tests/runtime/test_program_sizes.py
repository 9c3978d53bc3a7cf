"""Programs for ranges of sizes: every size, with nothing behind the arrays."""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import onnx.parser
import pytest

import tcopt
from tcopt.runtime.program_sizes import ProgramSizes, solved_sizes
from tcopt.runtime.random_inputs import input_values
from tcopt.runtime.specs import TensorSpec
from tcopt.support.arithmetic.sizes import named_size, symbols_of
from tcopt.support.errors import InputError
from tcopt.support.processes.guarded_memory import PAGE, map_region

F32 = np.dtype(np.float32)


def model(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')


MODELS = {
    "rows": (
        """m (float[n, 20] x, float[20] b) => (float[n, 20] y) {
          a = Add(x, b)
          y = Softmax <axis: int = 1> (a)
        }""",
        {"n": (0, 19)},
        lambda x, b: [_softmax(x + b)],
    ),
    "square": (
        """m (float[n, n] x, float[n, 1] z) => (float[n, n] y) {
          t = Transpose <perm: ints = [1, 0]> (x)
          s = Add(t, z)
          y = Softmax <axis: int = 1> (s)
        }""",
        {"n": (1, 19)},
        lambda x, z: [_softmax(x.T + z)],
    ),
    "parts": (
        """m (float[a, 3] x, float[b, 3] y) => (float[c, 3] z, float[d, 3] u) {
          p = Relu(x)
          q = Neg(y)
          z = Concat <axis: int = 0> (p, q)
          u = Concat <axis: int = 0> (y, z, x)
        }""",
        {"a": (0, 9), "b": (1, 6)},
        lambda x, y: [
            np.concatenate([np.maximum(x, 0), -y]),
            np.concatenate([y, np.maximum(x, 0), -y, x]),
        ],
    ),
    "steps": (
        """m (float[3, n, 2] x, float[1, 4, 2] w, float[1, 4, 4] r)
            => (float[3, 1, n, 4] y, float[1, n, 4] h) {
          y, h = RNN <hidden_size: int = 4> (x, w, r)
        }""",
        {"n": (1, 5)},
        lambda x, w, r: _rnn(x, w[0], r[0]),
    ),
    "merged": (
        """m (float[a, b, 4] x, float[4, 5] w) => (float[a, b, 5] y) {
          z = MatMul(x, w)
          y = Tanh(z)
        }""",
        {"a": (1, 4), "b": (1, 7)},
        lambda x, w: [np.tanh(x @ w)],
    ),
    "attention": (
        """m (float[n, 8] x) => (float[n, 8] y) {
          t = Transpose <perm: ints = [1, 0]> (x)
          s = MatMul(x, t)
          p = Softmax <axis: int = 1> (s)
          y = MatMul(p, x)
        }""",
        {"n": (1, 40)},
        lambda x: [_softmax(x @ x.T) @ x],
    ),
    "images": (
        """m (float[n, 3, 5, 5] x, float[4, 3, 3, 3] w) => (float[n, 4, 3, 3] y) {
          c = Conv(x, w)
          y = Relu(c)
        }""",
        {"n": (1, 19)},
        lambda x, w: [np.maximum(_convolution(x, w), 0)],
    ),
}


def _rnn(x, w, r):
    states = [np.zeros((x.shape[1], len(w)), F32)]
    for each in x:
        states.append(np.tanh(each @ w.T + states[-1] @ r.T))
    return [np.stack(states[1:])[:, None], states[-1][None]]


def _convolution(x, w):
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w)


def _softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True)) if x.size else x
    return e / e.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def programs():
    """Return a function that compiles a model once."""
    known = {}

    def get(name):
        if name not in known:
            text, dims, _ = MODELS[name]
            known[name] = tcopt.compile(model(text), dims=dims, workers=0)
        return known[name]

    return get


@contextmanager
def guarded(shapes) -> Iterator[list[np.ndarray]]:
    """Yield f32 arrays that end where memory cannot be accessed."""
    regions, arrays = [], []
    for shape in shapes:
        size = 4 * int(np.prod(shape))
        pages = -(-max(size, 1) // PAGE) * PAGE
        region = map_region(pages, pages - size, size, writable=True)
        regions.append(region)
        data = (ctypes.c_char * size).from_address(region.start)
        arrays.append(np.frombuffer(data, F32).reshape(shape))
    yield arrays
    for region in regions:
        region.free()


def check(compiled, name, sizes, rng):
    inputs = compiled.inputs
    at = {symbol: sizes[symbol] for symbol in sizes}
    shapes = [tuple(at.get(str(d), d) for d in spec.shape) for spec in inputs]
    values = [rng.standard_normal(shape).astype(F32) for shape in shapes]
    wanted = MODELS[name][2](*values)
    with guarded([*shapes, *(each.shape for each in wanted)]) as arrays:
        for array, value in zip(arrays, values, strict=False):
            array[...] = value
        feeds = {spec.name: a for spec, a in zip(inputs, arrays, strict=False)}
        found = compiled.run(feeds)
        written = compiled.run(feeds, out=arrays[len(shapes) :])
        for one, other, result in zip(found, written, wanted, strict=True):
            np.testing.assert_allclose(one, result, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(other, result, rtol=1e-4, atol=1e-5)
        del found, written, one, other, feeds, array
        arrays.clear()


@pytest.mark.parametrize("name", MODELS)
def test_every_size(programs, name, rng):
    """Reads and writes behind the live extents would end the process."""
    ranges = {n: range(low, high + 1) for n, (low, high) in MODELS[name][1].items()}
    for number in range(max(map(len, ranges.values()))):
        # Two sizes are not in step.
        sizes = {n: r[(number * (at + 1)) % len(r)] for at, (n, r) in enumerate(ranges.items())}
        check(programs(name), name, sizes, rng)


def test_threads(programs, rng):
    compiled = programs("rows")
    compiled.threads = 2
    try:
        for n in (0, 1, 7, 19):
            check(compiled, "rows", {"n": n}, rng)
    finally:
        compiled.threads = None


def test_saved_models_keep_ranges(programs, tmp_path, rng):
    compiled = programs("parts")
    compiled.save(tmp_path / "m.tcm")
    loaded = tcopt.load(tmp_path / "m.tcm")
    assert loaded.inputs == compiled.inputs
    assert loaded.outputs == compiled.outputs
    for each in (loaded, pickle.loads(pickle.dumps(loaded))):
        check(each, "parts", {"a": 5, "b": 3}, rng)
    x, y = np.zeros((3, 3), F32), np.zeros((7, 3), F32)
    with pytest.raises(InputError, match=r'"y".*b from 1 to 6'):
        loaded.run({"x": x, "y": y})


@pytest.mark.parametrize(
    ("name", "shapes", "reason"),
    [
        ("rows", [(20, 20), (20,)], 'dimension 0 of input "x" is 20.*n from 0 to 19'),
        ("square", [(3, 4), (3, 1)], 'dimension 1 of input "x" is 4.*3.*dimension 0 of input "x"'),
        ("square", [(3, 3), (4, 1)], 'dimension 0 of input "z" is 4.*3.*dimension 0 of input "x"'),
        ("rows", [(3, 11), (20,)], r'shape \[3, 11\] for input "x"'),
        ("rows", [(3, 20, 1), (20,)], r'shape \[3, 20, 1\] for input "x"'),
    ],
)
def test_shapes_that_do_not_fit(programs, name, shapes, reason):
    compiled = programs(name)
    feeds = {s.name: np.zeros(shape, F32) for s, shape in zip(compiled.inputs, shapes, strict=True)}
    with pytest.raises(InputError, match=reason):
        compiled.run(feeds)


def test_results_keep_their_values_in_later_runs(programs):
    """Blocks for results are reused only when no array refers to them."""
    compiled = programs("rows")
    peak = np.where(np.arange(20) == 3, 200, 0).astype(F32)
    first = compiled.run({"x": np.zeros((4, 20), F32), "b": peak})[0]
    second = compiled.run({"x": np.zeros((9, 20), F32), "b": peak[::-1].copy()})[0]
    assert first.shape == (4, 20) and (first[:, 3] == 1).all()
    assert second.shape == (9, 20) and (second[:, 16] == 1).all()
    assert first.flags.c_contiguous


def test_destinations_have_live_shapes(programs):
    compiled = programs("rows")
    feeds = {"x": np.zeros((4, 20), F32), "b": np.zeros(20, F32)}
    with pytest.raises(InputError, match='output "y"'):
        compiled.run(feeds, out=[np.zeros((5, 20), F32)])


def test_random_inputs_draw_sizes(programs):
    compiled = programs("parts")
    shapes = {tuple(v.shape for v in input_values(compiled, {}, s).values()) for s in range(9)}
    assert len(shapes) > 3
    given = {"x": np.zeros((4, 3), F32)}
    assert input_values(compiled, given, 0)["x"].shape == (4, 3)
    assert input_values(programs("square"), {"z": np.zeros((5, 1), F32)}, 0)["x"].shape == (5, 5)


def test_profiles_count_live_bytes(programs):
    compiled, found = programs("rows"), []
    for n in (2, 4):
        feeds = input_values(compiled, {"x": np.zeros((n, 20), F32)}, 0)
        found.append(sum(call.bytes for call in compiled.profile(feeds, 1).kernels))
    assert found[1] - found[0] == 2 * 4 * (20 + 20)


def test_profiles_run_the_program_for_the_range():
    text, dims, _ = MODELS["rows"]
    steps = []
    compiled = tcopt.compile(
        model(text), dims=dims, cache=False, progress=lambda name, *_: steps.append(name)
    )
    for n in (2, 4):
        compiled.profile(input_values(compiled, {"x": np.zeros((n, 20), F32)}, 0), 1)
    assert steps.count("done") == 2  # the program, and one with clocks


# Solving.

N, M = named_size("n", 1, 64), named_size("m", 1, 8)
SYMBOLS = (*symbols_of(N), *symbols_of(M))


def spec(name, *shape):
    return TensorSpec(name, shape, F32)


def test_extents_are_solved_in_any_order():
    specs = [spec("a", N * M), spec("b", N + 2 * M), spec("c", M + 1)]
    values = solved_sizes(SYMBOLS, specs, ((12,), (10,), (4,)))
    assert values == {"m": 3, "n": 4}


@pytest.mark.parametrize(
    ("specs", "shapes", "reason"),
    [
        ([spec("a", N * M)], ((12,),), "do not determine the size"),
        ([spec("a", 2 * N), spec("b", M)], ((7,), (1,)), 'of input "a" is 7'),
        ([spec("a", N + 1, M), spec("b", N)], ((1, 1), (1,)), 'of input "a" is 1'),
        ([spec("a", N, M), spec("b", N * M)], ((3, 4), (13,)), "has to be 12"),
    ],
)
def test_shapes_without_a_solution(specs, shapes, reason):
    with pytest.raises(InputError, match=reason):
        solved_sizes(SYMBOLS, specs, shapes)


def test_outputs_have_live_shapes():
    outputs = [spec("y", N + M, 5), spec("z", N, 5)._replace(room=(9, 5))]
    sizes = ProgramSizes(SYMBOLS, [spec("a", N, M)], outputs)
    assert sizes.of(((3, 4),)) == ((3, 4), ((7, 5), (3, 5)), ((), (9, 5)))
