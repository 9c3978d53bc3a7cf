"""Operators of classical machine learning (ai.onnx.ml), against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tcopt
from models.checks import check_node, run_reference
from tcopt.support.errors import ImportModelError, InputError, UnsupportedError

X = np.array([[1, -2, 3], [-1, -5, -3], [0, 0, 0], [-1, -2, 0]], np.float32)
THREE = [1.0, 0, 0.5, -1, 0, 0.25, 0, 1, 0]
WORDS = np.array([["a", "é"], ["", "b"]], object)
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")


def info_of(name: str, value: np.ndarray) -> onnx.ValueInfoProto:
    number = TensorProto.STRING
    if value.dtype != object:
        number = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name, number, value.shape)


def model_of(nodes: list, feeds: dict, outputs: list[str], version: int = 3) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "classical",
        [info_of(name, value) for name, value in feeds.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    opsets = [helper.make_opsetid("ai.onnx.ml", version), helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def single(operator: str, *feeds: np.ndarray, outputs: int = 1, version: int = 3, **attributes):
    """Return a model with one node and undeclared outputs, and its feeds."""
    given = {f"x{place}": feed for place, feed in enumerate(feeds)}
    names = [f"y{place}" for place in range(outputs)]
    node = helper.make_node(operator, list(given), names, domain="ai.onnx.ml", **attributes)
    return model_of([node], given, names, version), given


def check(operator: str, *feeds: np.ndarray, atol: float = 1e-5, **options) -> None:
    model, given = single(operator, *feeds, **options)
    results = tcopt.compile(model).run(given)
    expected = run_reference(model, given)
    assert len(results) == len(expected)
    for ours, theirs in zip(results, expected, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        if theirs.dtype.kind == "f":
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=atol)
        else:
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm):
    check("Normalizer", X, norm=norm)
    check("Normalizer", X[0], norm=norm)
    check("Normalizer", X.astype(np.int64), norm=norm)


def test_scaler():
    check("Scaler", X, offset=[1.0], scale=[2.0])
    check("Scaler", X.astype(np.int64), offset=[1.0, 2, 3], scale=[2.0, 1, 1])
    model, feeds = single("Scaler", X, offset=[1.0, 2], scale=[2.0])
    with pytest.raises(ImportModelError, match="offset has 2 numbers for 3 features"):
        tcopt.compile(model).run(feeds)


def test_imputer():
    x = np.array([[1, np.nan, 0]], np.float32)
    floats = {"imputed_value_floats": [5.0, 6, 7], "replaced_value_float": float("nan")}
    check("Imputer", x, **floats)
    check("Imputer", x, imputed_value_floats=[5.0])
    check("Imputer", np.array([[1, 2, 0]]), imputed_value_int64s=[5], replaced_value_int64=2)


def test_one_hot_encoder():
    check("OneHotEncoder", np.array([[1, 2], [3, 9]]), cats_int64s=[1, 2, 3])
    check("OneHotEncoder", np.array([[1.5, 2]], np.float32), cats_int64s=[1, 2, 3])
    check("OneHotEncoder", WORDS, cats_strings=["é", "a", "b"])
    model, feeds = single("OneHotEncoder", np.array([9]), cats_int64s=[1], zeros=0)
    with pytest.raises(InputError, match="positions of categories"):
        tcopt.compile(model).run(feeds)


def test_feature_vectorizer():
    check("FeatureVectorizer", X, X[:, :2], inputdimensions=[3, 2])
    check("FeatureVectorizer", X, X[:, :2], inputdimensions=[2, 4])
    check("FeatureVectorizer", X.astype(np.int64), inputdimensions=[3])


def test_category_mapper():
    categories = {"cats_strings": ["a", "b"], "cats_int64s": [4, 5]}
    check("CategoryMapper", WORDS, **categories)
    check("CategoryMapper", np.array([5, 7]), **categories)


def tensor(kind: int, *values: object) -> onnx.TensorProto:
    return helper.make_tensor("t", kind, [len(values)], values)


@pytest.mark.parametrize(
    ("x", "version", "attributes"),
    [
        (np.array([0, 1, 7]), 1, {"classes_strings": ["q", "r"]}),
        (WORDS, 1, {"classes_strings": ["b", "a"]}),
        (np.array([3, 1, 2], np.float32), 2,
         {"keys_floats": [9, 1.0, 1.0], "values_int64s": [3, 4, 5]}),
        (np.array([1, 7]), 2, {"keys_int64s": [1, 1], "values_floats": [2.0, 3.0]}),
        (np.array([1, 2**60, -5]), 2,
         {"keys_int64s": [1, -5, 2**60], "values_strings": ["a", "b", "c"]}),
        (WORDS, 2, {"keys_strings": ["é", "a"], "values_strings": ["x", "y"],
                    "default_string": "none"}),
        (WORDS, 2, {"keys_strings": ["é", "a"], "values_floats": [1.0, 2.0],
                    "default_float": 0.5}),
        (np.array([np.nan, 2]), 4,
         {"keys_tensor": tensor(TensorProto.DOUBLE, np.nan, 2),
          "values_tensor": tensor(TensorProto.INT64, 5, 6),
          "default_tensor": tensor(TensorProto.INT64, 7)}),
    ],
)  # fmt: skip
def test_label_encoder(x, version, attributes):
    check("LabelEncoder", x, version=version, **attributes)


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_models(transform):
    options = {"outputs": 2, "version": 1, "post_transform": transform}
    one = {"coefficients": THREE[:3], "intercepts": [0.25]}
    check("LinearClassifier", X, **options, classlabels_ints=[4, 9], **one)
    two = {"coefficients": THREE[:6], "intercepts": [0.25, 0.5]}
    check("LinearClassifier", X, **options, classlabels_strings=["a", "é"], **two)
    three = {"coefficients": THREE, "intercepts": [0.25, 0.5, 0]}
    check("LinearClassifier", X, **options, classlabels_ints=[4, 9, 7], **three)
    check("LinearRegressor", X, post_transform=transform, targets=2, **two)
    check("LinearRegressor", X, post_transform=transform, coefficients=THREE[:3])


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize(
    ("kernel", "parameters"),
    [
        ("LINEAR", [0.0, 0, 0]),
        ("POLY", [0.5, 1, 2]),
        ("POLY", [0.5, -1, 3]),
        ("RBF", [0.5, 0, 0]),
        ("SIGMOID", [0.5, 1, 0]),
    ],
)
def test_support_vector_regression(kernel, parameters):
    options = {"kernel_type": kernel, "kernel_params": parameters, "rho": [0.125]}
    vectors = {"support_vectors": [1.0, 2, 3, -1, 0, 0.5], "n_supports": 2}
    check("SVMRegressor", X, **options, **vectors, coefficients=[0.5, -0.25])
    check("SVMRegressor", X, **options, **vectors, coefficients=[0.5, -0.25], one_class=1)
    check("SVMRegressor", X, **options, coefficients=[0.5, -0.25, 1], one_class=1)


@pytest.mark.nightly(every=4)
@pytest.mark.parametrize("kernel", ["LINEAR", "RBF"])
@pytest.mark.parametrize("sizes", [[2, 1], [2, 1, 2]])
def test_support_vector_classes(sizes, kernel, rng):
    classes, count = len(sizes), sum(sizes)
    pairs = classes * (classes - 1) // 2
    options = {
        "outputs": 2,
        "version": 1,
        "classlabels_strings": ["a", "é", "c"][:classes],
        "vectors_per_class": sizes,
        "support_vectors": rng.standard_normal(3 * count).tolist(),
        "coefficients": rng.standard_normal((classes - 1) * count).tolist(),
        "rho": rng.standard_normal(pairs).tolist(),
        "kernel_type": kernel,
        "kernel_params": [0.25, 0, 0],
    }
    x = rng.standard_normal((20, 3)).astype(np.float32)
    for transform in ("NONE", "LOGISTIC"):
        check("SVMClassifier", x, post_transform=transform, **options)
    if classes == 2:
        # onnxruntime iterates these probabilities until they are within 0.005 / 2.
        check("SVMClassifier", x, atol=2.5e-3, prob_a=[-1.5], prob_b=[0.25], **options)


def test_probabilities_of_three_classes(rng):
    """Pairwise probabilities are coupled by libsvm's iteration."""
    x, vectors = (rng.standard_normal((n, 3)).astype(np.float32) for n in (6, 6))
    options = {
        "outputs": 2,
        "domain": "ai.onnx.ml",
        "classlabels_ints": [2, 5, 7],
        "coefficients": rng.standard_normal(12).astype(np.float32).tolist(),
        "kernel_params": [0.5, 0.0, 3.0],
        "kernel_type": "RBF",
        "prob_a": [-1.0, -2.0, -1.5],
        "prob_b": [0.1, 0.2, -0.1],
        "rho": [0.1, 0.2, 0.3],
        "support_vectors": vectors.ravel().tolist(),
        "vectors_per_class": [1, 2, 3],
    }
    check_node("SVMClassifier", x, **options)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("sign", [-1, 1])
def test_linear_svm_classifiers(classes: int, sign: int, rng):
    """Without support vectors; of two classes the second wins above a threshold."""
    x = rng.standard_normal((12, 2)).astype(np.float32)
    weights = np.abs(rng.standard_normal(2 * classes)).astype(np.float32) * sign
    labels = list(range(classes))
    options = {"classlabels_ints": labels, "coefficients": weights.tolist(), "rho": [0.1]}
    options["kernel_params"] = [0.0, 0.0, 3.0]
    check_node("SVMClassifier", x, outputs=2, domain="ai.onnx.ml", kernel_type="LINEAR", **options)


@pytest.mark.parametrize("labels", [["a", "é"], [4, 9]])
def test_maps_of_scores(labels, tmp_path):
    kind = "strings" if isinstance(labels[0], str) else "int64s"
    first = {"classlabels_strings" if kind == "strings" else "classlabels_ints": labels}
    nodes = [
        helper.make_node("LinearClassifier", ["x"], ["label", "p"], domain="ai.onnx.ml",
                         coefficients=THREE[:6], intercepts=[0.25, 0.5],
                         post_transform="SOFTMAX", **first),
        helper.make_node("ZipMap", ["p"], ["maps"], domain="ai.onnx.ml",
                         **{f"classlabels_{kind}": labels}),
    ]  # fmt: skip
    undeclared = model_of(nodes, {"x": X}, ["label", "maps"], 1)
    declared = onnx.ModelProto()
    declared.CopyFrom(undeclared)
    key = TensorProto.STRING if kind == "strings" else TensorProto.INT64
    score = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(key, score))
    declared.graph.output[1].CopyFrom(helper.make_value_info("maps", maps))
    declared.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    _, expected = run_reference(declared, {"x": X})
    fixed = tcopt.compile(undeclared)
    fixed.save(tmp_path / "model.tcm")
    for model in (fixed, tcopt.compile(declared), tcopt.load(tmp_path / "model.tcm")):
        label, found = model.run({"x": X})
        assert label.tolist() == [max(row, key=row.get) for row in found]
        assert [list(row) for row in found] == [list(row) for row in expected]
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=1e-5)


def test_maps_are_no_inputs():
    score = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.INT64, score))
    model, _ = single("Scaler", X, offset=[1.0], scale=[2.0])
    model.graph.input[0].CopyFrom(helper.make_value_info("x0", maps))
    with pytest.raises(UnsupportedError, match="sequence of map"):
        tcopt.compile(model)


def test_outputs_without_types():
    """All kinds of computation: dynamic shapes, stages, sequences."""
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[n] x) => (y, z, s) {
        y = NonZero(x) t = Cast<to = 8>(x) z = Identity(t) s = SequenceConstruct(x, x) }"""
    model = tcopt.compile(onnx.parser.parse_model(text))
    y, z, s = model.run({"x": X[0]})
    np.testing.assert_array_equal(y, [[0, 1, 2]])
    assert z.tolist() == ["1", "-2", "3"]
    np.testing.assert_array_equal(s, [X[0], X[0]])
