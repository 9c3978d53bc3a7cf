"""A compiled model at run time: feeds, outputs, threads, and concurrent use."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

import tcopt
from models import convolutional
from models.network import Network
from tcopt.runtime import Model, TensorSpec
from tcopt.support.errors import InputError, TcoptError
from tcopt.support.processes.cores import default_threads


def two_outputs() -> ModelProto:
    """Return a model: sum = a + b and product = a * b, of [3, 4], and the integers plus one."""
    net = Network("two_outputs")
    a, b = net.input("a", [3, 4]), net.input("b", [3, 4])
    n = net.input("n", [2], TensorProto.INT64)
    model = net.model(
        **{
            net.add("Add", a, b): [3, 4],
            net.add("Mul", a, b): [3, 4],
        }
    )
    node = net.add("Add", n, net.ints(1))
    inner = net.model(**{node: [2]})
    inner.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    model.graph.node.append(inner.graph.node[-1])
    model.graph.initializer.append(inner.graph.initializer[-1])
    model.graph.output.append(inner.graph.output[0])
    return model


@pytest.fixture(scope="module")
def model() -> Model:
    return tcopt.compile(two_outputs())


@pytest.fixture
def feeds(rng) -> dict[str, np.ndarray]:
    a, b = rng.standard_normal((2, 3, 4)).astype(np.float32)
    return {"a": a, "b": b, "n": np.array([3, -4])}


def check(model: Model, feeds: dict[str, Any], meant: dict[str, np.ndarray] | None = None) -> None:
    """Compare a model's results for some feeds; `meant` are the feeds as plain arrays."""
    plain = meant or feeds
    expected = plain["a"] + plain["b"], plain["a"] * plain["b"], plain["n"] + 1
    for actual, value in zip(model.run(feeds), expected, strict=True):
        assert type(actual) is np.ndarray
        np.testing.assert_array_equal(actual, value)


def test_inputs_and_outputs_are_described(model):
    assert model.inputs == [
        TensorSpec("a", (3, 4), np.dtype(np.float32)),
        TensorSpec("b", (3, 4), np.dtype(np.float32)),
        TensorSpec("n", (2,), np.dtype(np.int64)),
    ]
    assert [spec.shape for spec in model.outputs] == [(3, 4), (3, 4), (2,)]
    assert str(model.inputs[0]) == '"a" float32[3x4]'


def test_results_are_in_the_models_order(model, feeds):
    check(model, feeds)


def test_the_order_of_feeds_does_not_matter(model, feeds):
    check(model, dict(reversed(feeds.items())))


def test_outputs_can_be_chosen(model, feeds):
    names = [spec.name for spec in model.outputs]
    product, total = model.run(feeds, outputs=[names[1], names[0]])
    np.testing.assert_array_equal(product, feeds["a"] * feeds["b"])
    np.testing.assert_array_equal(total, feeds["a"] + feeds["b"])
    assert model.run(feeds, outputs=[]) == []


def test_unknown_outputs_are_named(model, feeds):
    with pytest.raises(InputError, match='no output "y"') as caught:
        model.run(feeds, outputs=["y"])
    assert model.outputs[0].name in (caught.value.hint or "")


def test_results_stay_when_the_model_runs_again(model, feeds):
    first = model.run(feeds)
    kept = [array.copy() for array in first]
    model.run({**feeds, "a": feeds["a"] + 1, "n": feeds["n"] + 1})
    for array, copy in zip(first, kept, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_feeds_are_not_written(model, feeds):
    kept = {name: array.copy() for name, array in feeds.items()}
    for array in feeds.values():
        array.flags.writeable = False
    check(model, feeds)
    for name, array in feeds.items():
        np.testing.assert_array_equal(array, kept[name])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": None}, 'no value given for input "a"'),
        ({"z": np.zeros(2)}, 'no input "z"'),
        ({"a": np.zeros((3, 4))}, r'input "a" has type float64.*wants float32'),
        ({"n": np.zeros(2, np.int32)}, r'input "n" has type int32.*wants int64'),
        ({"a": np.zeros((4, 3), np.float32)}, r'shape \[4, 3\] for input "a" float32\[3x4\]'),
        ({"a": np.zeros(12, np.float32)}, r"shape \[12\]"),
        ({"a": np.float32(1)}, r"shape \[\]"),
        ({"a": "text"}, r'input "a" float32\[3x4\] cannot be \'text\''),
        ({"a": np.zeros((3, 4), object)}, r'input "a" has type object'),
        ({"a": np.zeros((3, 4), ">f8")}, r'input "a" has type float64'),
        ({"a": np.array([["x"] * 4] * 3)}, r'input "a" has type <U1'),
        ({"a": b"text"}, r"cannot be b'text'"),
        ({"a": {}}, r"cannot be dict"),
        ({"a": {1.0, 2.0}}, r"cannot be set"),
        ({"a": object()}, r"cannot be object"),
        ({"a": iter([1.0])}, r"cannot be list_iterator"),
        ({"a": [[1.0, 2.0], [3.0]]}, r"is not an array: its parts have different lengths"),
        ({"a": [["x"] * 4] * 3}, r"cannot hold"),
        ({"a": [[None] * 4] * 3}, r"cannot hold"),
        ({"a": [[1j] * 4] * 3}, r"cannot hold"),
        ({"a": [[True] * 4] * 3}, r"cannot hold"),
        ({"a": [[1e300] * 4] * 3}, r"cannot hold"),
        ({"a": [[10**400] * 4] * 3}, r"cannot hold|is not an array"),
        ({"n": [1.0, 2.0]}, r"cannot hold"),
        ({"n": [2**63, 1]}, r"cannot hold"),
        ({"n": [2**64, 1]}, r"cannot hold"),
        ({"n": [True, False]}, r"cannot hold"),
        ({"a": [1.0]}, r"shape \[1\]"),
        ({"a": np.ma.masked_less(np.zeros((3, 4), np.float32), 1)}, r"masked elements"),
        ({3: np.zeros(2)}, 'no input "3"'),
        ({None: np.zeros(2)}, 'no input "None"'),
    ],
)
def test_feeds_that_do_not_fit_are_errors(model, feeds, change, message):
    given = {name: value for name, value in {**feeds, **change}.items() if value is not None}
    with pytest.raises(InputError, match=message):
        model.run(given)


class Foreign:
    """Object that converts to an array, or fails to."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        if self.array is None:
            raise RuntimeError("no array today")
        return self.array


def test_what_is_no_feeds(model, feeds):
    for given in (None, 3, "a", [feeds["a"]], [("a", feeds["a"])], {"a", "b"}):
        with pytest.raises(InputError, match="feeds must be a mapping from input names"):
            model.run(given)
    with pytest.raises(InputError, match="Foreign: no array today"):
        model.run({**feeds, "a": Foreign(None)})
    for number in (0, -1, 1.5, "2", True, None, 2**40):
        with pytest.raises(InputError, match="number of runs"):
            model.profile(feeds, runs=number)
        if number is not None:
            with pytest.raises(InputError, match="number of threads"):
                model.threads = number
    for outputs in ("sum", b"sum", 3, [3], [None], [["sum"]]):
        with pytest.raises(InputError):
            model.run(feeds, outputs=outputs)


def test_arrays_of_any_kind(model, feeds):
    """Feeds may have any memory layout and array subclass."""
    a = feeds["a"]
    unaligned = np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(np.float32).reshape(a.shape)
    for value in (
        np.asfortranarray(a),
        np.repeat(a, 2, axis=1)[:, ::2],
        a[::-1][::-1],
        np.broadcast_to(a[None], (1, *a.shape))[0],
        unaligned,
        a.astype(a.dtype.newbyteorder()),
        a.view(np.matrix),
        np.ma.masked_array(a),
        a.view(np.recarray),
        Foreign(a),
        memoryview(a),
        a.tolist(),
        [tuple(row) for row in a.tolist()],
        [list(row) for row in a],
    ):
        check(model, {**feeds, "a": value}, {**feeds, "a": a})
    for value in ([1, -2], (1, -2), [np.int64(1), -2]):
        check(model, {**feeds, "n": value}, {**feeds, "n": np.array([1, -2])})


def test_errors_name_the_inputs_there_are(model, feeds):
    with pytest.raises(InputError) as caught:
        model.run({**feeds, "z": feeds["a"]})
    assert '"a" float32[3x4], "b" float32[3x4], "n" int64[2]' in (caught.value.hint or "")


LAYOUTS = {
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "strided": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "reversed": lambda a: a[::-1].copy()[::-1],
    "broadcast": lambda a: np.broadcast_to(a[0], a.shape),
    "unaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), np.float32, offset=1).reshape(a.shape),
    "list": lambda a: [list(row) for row in a],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_in_any_layout_are_taken(model, feeds, layout):
    array = LAYOUTS[layout](feeds["a"])
    expected = np.asarray(array) + feeds["b"]
    np.testing.assert_array_equal(model.run({**feeds, "a": array})[0], expected)


def test_one_array_may_feed_two_inputs(model, feeds):
    check(model, {**feeds, "b": feeds["a"]})


def test_number_of_threads(feeds):
    model = tcopt.compile(two_outputs())
    assert model.threads is None
    for threads in (1, 2, 5, None):
        model.threads = threads
        check(model, feeds)
        assert model.threads == threads
        assert model.program.entry.threads == (threads or default_threads())


@pytest.mark.parametrize("threads", [0, -1])
def test_wrong_numbers_of_threads(model, feeds, threads):
    with pytest.raises(InputError, match="at least 1"):
        model.threads = threads
    assert model.threads is None
    check(model, feeds)


def test_models_do_not_share_their_number_of_threads(model, feeds):
    other = tcopt.compile(two_outputs())
    other.threads = 3
    for each in (other, model):
        check(each, feeds)
    assert (other.program.entry.threads, model.program.entry.threads) == (3, default_threads())


def test_one_model_from_several_threads(rng):
    """Runs of one model are serialised, because they share its workspace."""
    model = tcopt.compile(convolutional.residual_net())
    images = rng.standard_normal((6, 1, 3, 32, 32)).astype(np.float32)
    expected = [model.run({"image": image})[0] for image in images]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: model.run({"image": images[i % 6]})[0], range(60)))
    for number, result in enumerate(results):
        np.testing.assert_array_equal(result, expected[number % 6])


def test_an_open_model_from_several_threads():
    """The first shape and the range are compiled once, whoever requests them first."""
    net = Network("open")
    x = net.input("x", ["n"])
    compiles: list[str] = []
    source = net.model(**{net.add("Relu", x): ["n"]})
    model = tcopt.compile(source, progress=lambda name, *_: compiles.append(name))
    with ThreadPoolExecutor(4) as pool:
        arrays = [np.full(1 + i % 3, i - 6, np.float32) for i in range(12)]
        results = list(pool.map(lambda array: model.run({"x": array})[0], arrays))
    for array, result in zip(arrays, results, strict=True):
        np.testing.assert_array_equal(result, np.maximum(array, 0))
    assert compiles.count("done") == 2


def test_two_models_at_the_same_time(rng):
    models = [tcopt.compile(convolutional.residual_net(seed=seed)) for seed in (0, 1)]
    image = rng.standard_normal((1, 3, 32, 32)).astype(np.float32)
    expected = [model.run({"image": image})[0] for model in models]
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda i: models[i % 2].run({"image": image})[0], range(40))
        for number, result in enumerate(results):
            np.testing.assert_array_equal(result, expected[number % 2])


def test_memory_of_results_is_used_again_when_nobody_holds_them(model, feeds):
    """A view of a result keeps its memory; without views, the next run reuses it."""
    total = model.run(feeds)[0]
    address, row = total.ctypes.data, total[1:, ::2]
    kept = row.copy()
    del total
    others = [model.run({**feeds, "a": feeds["a"] + n})[0] for n in range(1, 5)]
    np.testing.assert_array_equal(row, kept)
    assert address not in [other.ctypes.data for other in others]
    assert len({other.ctypes.data for other in others}) == len(others)
    del row, others
    seen = {model.run(feeds)[0].ctypes.data for _ in range(5)}
    assert len(seen) <= 2
    assert all(place % 64 == 0 for place in seen)


def test_repr_names_target_inputs_and_outputs(model):
    """The prompt shows one line, a notebook a table; names are escaped there."""
    assert repr(model).startswith(
        '<Model for cpu: "a" float32[3x4], "b" float32[3x4], "n" int64[2]'
    )
    model = Model.lazy(None, [TensorSpec("<b>", ("n", None), np.dtype("f4"))], [])
    model.name, model.target = "x&y", "cpu:haswell"
    assert repr(model) == '<Model x&y for cpu:haswell: "<b>" float32[n, ?] -> no outputs>'
    html = model._repr_html_()
    assert "x&amp;y for cpu:haswell" in html
    assert "<td>&lt;b&gt;</td><td>float32[n, ?]</td>" in html


def test_shapes_seen_before_are_checked_and_found_again():
    """Dynamic shapes: a second run with known shapes rejects the same feeds as the first, and an
    evicted program is compiled again."""
    net = Network("open")
    total = net.add("Add", net.input("a", ["n"]), net.input("b", ["n"]))
    compiled = tcopt.compile(net.model(**{total: ["n"]}), programs_kept=1)
    feeds = {n: {"a": np.arange(n, dtype=np.float32), "b": np.ones(n, np.float32)} for n in (2, 3)}
    for n in (2, 2, 3, 3, 2, 2):
        np.testing.assert_array_equal(compiled.run(feeds[n])[0], np.arange(1, n + 1))
    known = feeds[2]
    spread = np.zeros((2, 2), np.float32)[:, 0]
    np.testing.assert_array_equal(compiled.run({**known, "a": spread})[0], [1, 1])
    np.testing.assert_array_equal(compiled.run({**known, "a": [1, 2]})[0], [2, 3])
    for wrong in (
        {**known, "a": np.zeros(2)},
        {**known, "a": np.zeros((2, 1), np.float32)},
        {**known, "c": known["a"]},
        {"a": known["a"], "c": known["b"]},
        {"a": known["a"]},
    ):
        with pytest.raises(InputError):
            compiled.run(wrong)
    with pytest.warns(UserWarning, match="n is"), pytest.raises(TcoptError):
        compiled.run({**known, "a": feeds[3]["a"]})
