"""`tcopt.quantize`: its models run here and in onnxruntime, close to the float model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper

import tcopt
from models.checks import exact_options
from models.quantization_models import Feeds, chain, dense, images, normalized, residual
from tcopt.frontends.onnx.building.network import Network
from tcopt.quantization.batch_norm import FoldBatchNorm
from tcopt.quantization.equalization import EqualizeLayers
from tcopt.quantization.errors import ErrorSum
from tcopt.quantization.layers import layers_of
from tcopt.quantization.onnx_graph import open_graph
from tcopt.quantization.patterns import rewrite
from tcopt.support.errors import InputError, TcoptError, UnsupportedError


def _reference(model: ModelProto, feeds: Feeds) -> np.ndarray:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), exact_options(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)[0]


def _first(data: Feeds) -> Feeds:
    return {name: array[0] for name, array in data.items()}


def _error(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.sqrt(np.mean((actual - expected) ** 2) / np.mean(expected**2)))


def _count(model: ModelProto, operator: str) -> int:
    return sum(node.op_type == operator for node in model.graph.node)


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"method": "minmax", "activations": "int8", "symmetric": True, "per_channel": False},
        {
            "method": "entropy",
            "power_of_two": True,
            "bias_correction": False,
            "symmetric_weights": False,
        },
    ],
    ids=["default", "symmetric", "powers"],
)
def test_a_quantized_model_is_a_standard_one(settings: dict[str, object]) -> None:
    model = residual()
    data = images(model)
    found = tcopt.quantize(model, data, plan=False, **settings)
    onnx.checker.check_model(found.model)
    assert len(found.layers) == 4
    feeds = _first(data)
    expected = _reference(model, feeds)
    ours = tcopt.compile(found.model).run(feeds)[0]
    theirs = _reference(found.model, feeds)
    # Steps of 8 bits, doubled for powers of two, through four layers.
    assert _error(ours, expected) < 0.1
    assert found.plan.error < 0.1
    # Runtimes compute the same integers, but a value near a tie may round either way.
    assert _error(ours, theirs) < 0.02


@pytest.mark.nightly
def test_functions_and_sums_behind_layers_run_elsewhere_in_integers(tmp_path: Path) -> None:
    net = Network("behind")
    x = net.conv(net.input("x", [1, 3, 12, 12]), 3, 8)
    x = net.add("Mul", x, net.add("Sigmoid", x))
    x = net.add("Relu", net.add("Add", net.conv(x, 8, 8), x))
    model = net.model(**{net.conv(x, 8, 4): [1, 4, 12, 12]})
    data = images(model)
    found = tcopt.quantize(model, data, plan=False).model
    feeds = _first(data)
    expected, theirs = _reference(model, feeds), _reference(found, feeds)
    ours = tcopt.compile(found).run(feeds)[0]
    assert _error(ours, expected) < 0.05
    assert _error(ours, theirs) < 0.02
    # All convolutions but the last return integers, with scalar scales rather than vectors of one.
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    onnxruntime.InferenceSession(found.SerializeToString(), options)
    optimised = onnx.load(options.optimized_model_filepath)
    assert (_count(optimised, "QLinearConv"), _count(optimised, "QLinearAdd")) == (2, 1)
    floats = tcopt.quantize(model, data, plan=False, functions=False, sums=False).model
    assert _count(found, "QuantizeLinear") == _count(floats, "QuantizeLinear") + 2


def test_names_and_metadata_survive() -> None:
    model = residual()
    model.metadata_props.add(key="author", value="me")
    model.graph.node[1].name = ""
    found = tcopt.quantize(model, images(model), plan=False).model
    assert [(p.key, p.value) for p in found.metadata_props] == [("author", "me")]
    assert list(found.graph.input) == list(model.graph.input)
    assert list(found.graph.output) == list(model.graph.output)
    kept = {node.name for node in found.graph.node}
    # Batch normalisation was folded into the convolution before it.
    own = {node.name for node in model.graph.node if node.op_type != "BatchNormalization"}
    assert own <= kept


def test_what_carries_values_gets_integers() -> None:
    model = residual()
    found = tcopt.quantize(model, images(model), plan=False).model
    makers = {name: node for node in found.graph.node for name in node.output}
    (pool,) = (node for node in found.graph.node if node.op_type == "MaxPool")
    before = makers[pool.input[0]]
    (after,) = (n for n in found.graph.node if pool.output[0] in n.input)
    assert (before.op_type, after.op_type) == ("DequantizeLinear", "QuantizeLinear")
    values = {w.name: onnx.numpy_helper.to_array(w) for w in found.graph.initializer}
    assert values[before.input[1]] == values[after.input[1]]


def test_a_constant_activation_has_a_scale() -> None:
    net_model = dense()
    data = {"x": np.zeros((2, 4, 16), np.float32)}
    found = tcopt.quantize(net_model, data, plan=False)
    result = tcopt.compile(found.model).run(_first(data))[0]
    assert np.isfinite(result).all()


@pytest.mark.nightly
def test_open_extents_and_old_opsets_are_taken() -> None:
    model = residual(batch="batch")
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", 11))
    # Weights were inputs too; as integers they are constants, and no float copy remains.
    facts = {w.name: (w.data_type, list(w.dims)) for w in model.graph.initializer}
    infos = [helper.make_tensor_value_info(name, *facts[name]) for name in facts]
    model.graph.input.extend(infos)
    data = {"x": images(residual(), 4)["x"].reshape(4, 3, 12, 12)}
    found = tcopt.quantize(model, data, plan=False, batch=2)
    left = {w.name for w in found.model.graph.initializer}
    left |= {info.name for info in found.model.graph.input}
    layers = [node for node in model.graph.node if node.op_type == "Conv"]
    assert not left & {node.input[1] for node in layers}
    feeds = {"x": data["x"][:3]}
    ours = tcopt.compile(found.model).run(feeds)[0]
    assert _error(ours, _reference(model, feeds)) < 0.1


def test_batch_normalization_folds_exactly() -> None:
    model = residual()
    graph = open_graph(model)
    assert rewrite(graph, [FoldBatchNorm()]) == 1
    graph.sort()
    feeds = _first(images(model))
    np.testing.assert_allclose(
        _reference(graph.model, feeds), _reference(model, feeds), rtol=1e-4, atol=1e-5
    )


def test_equalized_layers_compute_the_same_with_ranges_alike() -> None:
    model = chain(spread=4.0)
    graph = open_graph(model)
    assert rewrite(graph, [EqualizeLayers()]) > 0
    graph.sort()
    feeds = _first(images(model))
    np.testing.assert_allclose(
        _reference(graph.model, feeds), _reference(model, feeds), rtol=1e-3, atol=1e-4
    )
    first, _, last = layers_of(graph)
    out = np.abs(graph.array(first.node.input[1])).max(axis=(1, 2, 3))
    assert out.max() / out.min() < 20
    assert last.name == "Conv_4"


@pytest.mark.nightly
def test_equalization_helps_weights_with_one_scale() -> None:
    model = chain(spread=4.0)
    data = images(model)
    plain, equal = (
        tcopt.quantize(model, data, plan=False, per_channel=False, equalize=equalize).plan.error
        for equalize in (False, True)
    )
    assert equal < plain / 2


@pytest.mark.nightly
def test_smoothing_helps_channels_that_stand_out() -> None:
    model = normalized()
    data = images(model)
    plain, smooth = (
        tcopt.quantize(model, data, plan=False, method="minmax", smooth=strength)
        for strength in (None, 0.5)
    )
    assert smooth.plan.error < plain.plan.error / 1.5
    feeds = _first(data)
    assert _error(_reference(smooth.model, feeds), _reference(model, feeds)) < 0.05


@pytest.mark.nightly
def test_the_best_method_is_that_of_least_error() -> None:
    model, told = dense(), list[str]()
    found = tcopt.quantize(model, images(model), plan=False, method="best", progress=told.append)
    errors = [float(line.split(": ")[1]) for line in told if line.startswith("error by")]
    assert len(errors) == 4 and found.plan.error == pytest.approx(min(errors), rel=1e-2)


@pytest.mark.nightly
def test_biases_are_corrected_for_what_weights_lose() -> None:
    model = chain(spread=3.0)
    data = {"x": images(model)["x"] + 2}
    without, with_correction = (
        tcopt.quantize(model, data, plan=False, per_channel=False, bias_correction=correct)
        for correct in (False, True)
    )
    assert with_correction.plan.error < without.plan.error


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"method": "good"}, InputError, "no calibration method 'good'"),
        ({"activations": "int4"}, InputError, "not stored as 'int4'"),
        ({"percentile": 3}, InputError, "a percentile"),
        ({"smooth": 2.0}, InputError, "a strength of smoothing"),
        ({"mehtod": "mse"}, InputError, "no setting 'mehtod'"),
        ({"floats": ["nothing"]}, InputError, "no layer 'nothing'"),
        ({"max_error": 0.0}, InputError, "the maximum error"),
        ({"min_gain": 1.5}, InputError, "a gain is"),
        ({"samples": 0}, InputError, "must be at least 1"),
        ({"samples": 1.5}, InputError, "'samples' must be an integer, not 1.5"),
        ({"batch": "2"}, InputError, "'batch' must be an integer, not '2'"),
        ({"percentile": "99"}, InputError, "'percentile' must be a number, not '99'"),
        ({"floats": "nothing"}, InputError, "no layer 'nothing'"),
    ],
)
def test_settings_that_do_not_fit_are_named(
    change: dict[str, object], error: type[TcoptError], message: str
) -> None:
    model = chain()
    with pytest.raises(error, match=message):
        tcopt.quantize(model, images(model), plan=False, **change)


def test_models_that_cannot_be_quantized_are_refused(tmp_path: Path) -> None:
    relu = helper.make_model(
        helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    data = {"x": np.ones(2, np.float32)}
    with pytest.raises(UnsupportedError, match="no layer to quantise"):
        tcopt.quantize(relu, data, plan=False)
    model = dense()
    made = tcopt.quantize(model, images(model), plan=False).model
    place = tmp_path / "again.onnx"
    with pytest.raises(InputError, match=r"quantised already, it has (Deq|Q)uantizeLinear"):
        tcopt.quantize(made, images(model), plan=False, output=place)
    assert list(tmp_path.iterdir()) == []


FORMS = {
    "outputs without shapes": """(float[4, 16] x) => (y) {
        h = MatMul(x, w)
        y = Relu(h)
    }""",
    "weights behind Identity": """(float[4, 16] x) => (float[4, 8] y) {
        u = Identity(w)
        v = Identity(u)
        y = MatMul(x, v)
    }""",
    "layers in functions": """(float[4, 16] x) => (float[4, 8] y) { y = own.outer(x, w) }
    <domain: "own", opset_import: ["" : 18, "own" : 1]> outer (a, b) => (c) { c = own.inner(a, b) }
    <domain: "own", opset_import: ["" : 18]> inner (a, b) => (c) { c = MatMul(a, b) }""",
}


def _formed(text: str, dtype: type[np.generic] = np.float32) -> ModelProto:
    text = f'<ir_version: 9, opset_import: ["" : 18, "own" : 1]>\ng {text}'
    model = onnx.parser.parse_model(text)
    weights = np.random.default_rng(1).standard_normal((16, 8)).astype(dtype)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return model


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("form", FORMS)
def test_layers_are_found_in_models_of_any_form(form: str) -> None:
    model = _formed(FORMS[form])
    samples = np.random.default_rng(2).standard_normal((2, 4, 16)).astype(np.float32)
    result = tcopt.quantize(model, {"x": samples}, plan=False)
    assert len(result.layers) == 1
    (expected,) = tcopt.compile(model, workers=0).run({"x": samples[0]})
    (found,) = tcopt.compile(result.model, workers=0).run({"x": samples[0]})
    assert _error(found, expected) < 0.02


def test_layers_of_half_precision_are_named() -> None:
    text = "(float16[4, 16] x) => (float16[4, 8] y) { y = MatMul(x, w) }"
    data = {"x": np.ones((1, 4, 16), np.float16)}
    with pytest.raises(UnsupportedError, match="are of float16"):
        tcopt.quantize(_formed(text, np.float16), data, plan=False)


@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (np.inf, "infinity")])
@pytest.mark.parametrize("place", [1, 2])
def test_weights_that_are_not_finite_are_named(place: int, value: float, what: str) -> None:
    model = chain()
    name = model.graph.node[2].input[place]
    (tensor,) = (w for w in model.graph.initializer if w.name == name)
    array = onnx.numpy_helper.to_array(tensor).copy()
    array.flat[1] = value
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, name))
    with pytest.raises(InputError, match=f"the weights '{name}' have {what}"):
        tcopt.quantize(model, images(model), plan=False)


def test_a_model_whose_results_would_be_infinite_is_not_written(tmp_path: Path) -> None:
    model = dense()
    (tensor,) = (w for w in model.graph.initializer if w.name == model.graph.node[0].input[2])
    array = onnx.numpy_helper.to_array(tensor).copy()
    array[0] = 1e38
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    with pytest.raises(UnsupportedError, match="are not finite, so it is discarded"):
        tcopt.quantize(model, images(model), plan=False, output=tmp_path / "x.onnx")
    assert list(tmp_path.iterdir()) == []


def test_infinities_of_both_sides_are_no_error() -> None:
    total = ErrorSum()
    total.add(np.array([np.inf, np.nan, 1.0]), np.array([np.inf, np.nan, 2.0]))
    assert total.relative == 0.5
    total.add(np.array([np.nan]), np.array([1.0]))
    assert total.relative == np.inf


def test_values_that_are_not_finite_inside_are_named() -> None:
    model = chain()
    data = {"x": np.full((1, 4, 8, 8), 3e38, np.float32)}
    with pytest.raises(InputError, match="is not finite in run 0"):
        tcopt.quantize(model, data, plan=False)
