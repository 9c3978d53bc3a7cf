"""Parts of import_model other than operators."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import NameLoc

from models.checks import check_model, check_node, node_model, op_names, run_imported
from tcopt.dialects.graph.core.types import shape_of
from tcopt.dialects.graph.core.weights import weights_of
from tcopt.frontends.onnx import MissingShapesError, MissingValuesError, import_model
from tcopt.frontends.onnx import check_model as checked
from tcopt.support.errors import InputError

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model_of(
    nodes, inputs, outputs, weights=(), *, opset=17, ir_version=8, **options
) -> ModelProto:
    """Return a model; inputs are (name, shape) pairs of floats, outputs names, weights arrays."""
    infos = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    tensors = [numpy_helper.from_array(array, name) for name, array in dict(weights).items()]
    graph = helper.make_graph(nodes, "test", infos, results, tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version, **options)


def relu(source: str, target: str, name: str = "") -> onnx.NodeProto:
    return helper.make_node("Relu", [source], [target], name=name)


def test_text_form():
    nodes = [
        helper.make_node("Gemm", ["in/x", "w", "b"], ["a h"], name="fc", transB=1),
        relu("a h", "out"),
    ]
    weights = {"w": np.ones((3, 4), np.float32), "b": np.ones(3, np.float32)}
    module = import_model(model_of(nodes, [("in/x", [2, 4])], ["out"], weights))
    store = module.attributes["graph.weights"]
    assert str(module) == (
        'builtin.module attributes {graph.inputs = ["in/x"], graph.outputs = ["out"], '
        f"graph.weights = {store}}} {{\n"
        "  func.func @main(%in_x: tensor<2x4xf32>) -> tensor<2x3xf32> {\n"
        "    %w = graph.constant @w : tensor<3x4xf32>\n"
        "    %b = graph.constant @b : tensor<3xf32>\n"
        "    %0 = graph.matmul %in_x, %w {transpose_b} : tensor<2x3xf32>\n"
        "    %a_h = graph.add %0, %b : tensor<2x3xf32>\n"
        "    %out = graph.relu %a_h : tensor<2x3xf32>\n"
        "    func.return %out : tensor<2x3xf32>\n"
        "  }\n"
        "}"
    )


def test_locations_are_node_names_or_outputs():
    module = import_model(model_of([relu("x", "h", "first"), relu("h", "y")], [("x", [2])], ["y"]))
    (function,) = module.ops
    first, second, _ = function.regions[0].block.ops
    assert isinstance(first.location, NameLoc)
    assert isinstance(second.location, NameLoc)
    assert first.location.desc.data == "first"
    assert second.location.desc.data == "Relu:y"


def test_all_forms_of_source_agree(tmp_path: Path):
    model = model_of([relu("x", "y")], [("x", [2])], ["y"])
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    texts = [
        str(import_model(source)).replace("mem:", "").partition("func.func")[2]
        for source in (model, model.SerializeToString(), path, str(path))
    ]
    assert len(set(texts)) == 1


def test_weights_listed_as_inputs_stay_weights():
    weights = {"w": np.ones((2,), np.float32)}
    node = helper.make_node("Add", ["x", "w"], ["y"])
    model = model_of([node], [("w", [2]), ("x", [2])], ["y"], weights, ir_version=3)
    module = import_model(model)
    assert str(module.attributes["graph.inputs"]) == '["x"]'
    store = weights_of(module)
    assert store is not None
    assert list(store) == ["w"]


def test_unused_nodes_and_weights_are_dropped():
    weights = {"w": np.ones((2,), np.float32)}
    nodes = [helper.make_node("Add", ["x", "w"], ["unused"]), relu("x", "y")]
    assert op_names(import_model(model_of(nodes, [("x", [2])], ["y"], weights))) == ["relu"]


def test_nodes_in_any_order():
    nodes = [relu("h", "y", "second"), relu("x", "h", "first")]
    assert op_names(import_model(model_of(nodes, [("x", [2])], ["y"]))) == ["relu", "relu"]


def test_an_input_or_weight_may_be_an_output():
    weights = {"w": np.array([3.0, 4.0], np.float32)}
    model = model_of([relu("x", "y")], [("x", [2])], ["x", "w", "y"], weights)
    x = np.array([-1.0, 1.0], np.float32)
    for actual, expected in zip(
        run_imported(model, {"x": x}), (x, weights["w"], np.maximum(x, 0)), strict=True
    ):
        np.testing.assert_array_equal(actual, expected)


# Tests of dynamic dimensions.


def open_model() -> ModelProto:
    node = helper.make_node("Add", ["x", "z"], ["y"])
    return model_of([node], [("x", ["batch", 3]), ("z", ["batch", None])], ["y"])


def test_open_dimensions_are_listed():
    with pytest.raises(MissingShapesError, match=r'"x" \[batch, 3\], "z" \[batch, \?\]') as caught:
        import_model(open_model())
    assert caught.value.inputs == {"x": ["batch", 3], "z": ["batch", None]}


def test_a_symbol_is_fixed_once():
    with pytest.raises(MissingShapesError) as caught:
        import_model(open_model(), shapes={"x": [5, 3]})
    assert caught.value.inputs == {"z": [5, None]}
    module = import_model(open_model(), shapes={"z": [5, 1]})
    (function,) = module.ops
    assert [shape_of(argument) for argument in function.regions[0].block.args] == [(5, 3), (5, 1)]


def test_a_symbol_with_two_extents():
    """Unconstrained dimensions may differ between inputs; declared extents hold for all."""
    shapes = {"x": [5, 3], "z": [1, 1]}
    (function,) = import_model(open_model(), shapes=shapes).ops
    assert [shape_of(argument) for argument in function.regions[0].block.args] == [(5, 3), (1, 1)]
    with pytest.raises(InputError, match="batch"):
        import_model(open_model(), shapes=shapes, dims={"batch": 5})


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"q": [1]}, 'no input \'q\'; its inputs are "x", "z"'),
        ({"x": [5]}, r"shape \[5\] does not fit input 'x', which is \[batch, 3\]"),
        ({"x": [5, 4]}, r"shape \[5, 4\] does not fit"),
        ({"x": [-1, 3]}, "negative"),
    ],
)
def test_shapes_that_do_not_fit(shapes: dict, message: str):
    with pytest.raises(InputError, match=message):
        import_model(open_model(), shapes=shapes)


@pytest.mark.parametrize(
    "name", ["?", "None", "224", "", " ", "height / 2", "n-1", "-1", "a+", "+"]
)
def test_names_that_are_no_identifiers_name_nothing(name: str):
    """Dimensions whose names are not identifiers are independent."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 3, n] x) => (float[n] y) { y = Relu(x) }""")
    for dim in model.graph.input[0].type.tensor_type.shape.dim[::2]:
        dim.dim_param = name
    module = import_model(model, shapes={"x": [4, 3, 5]})
    assert [shape_of(a) for a in module.body.block.first_op.body.block.args] == [(4, 3, 5)]
    assert checked(model).summary.open_dimensions == ("?",)


@pytest.mark.parametrize("name", ["n", "p2o.DynamicDimension.0", "unk__7", "past + 1", "größe"])
def test_names_of_dimensions(name: str):
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 3, n] x) => (float[n] y) { y = Relu(x) }""")
    for dim in model.graph.input[0].type.tensor_type.shape.dim[::2]:
        dim.dim_param = name
    module = import_model(model, shapes={"x": [4, 3, 5]})
    assert [shape_of(a) for a in module.body.block.first_op.body.block.args] == [(4, 3, 5)]


@pytest.mark.parametrize(
    ("name", "extent"), [("n + 1", 9), ("n - 1", 7), ("3 * n", 24), ("(n - 3) // 2 + 1", 3)]
)
def test_dimensions_follow_from_their_names(name: str, extent: int):
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 3] x) => (float[n] y) { y = Relu(x) }""")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = name
    module = import_model(model, dims={"n": 8})
    assert [shape_of(a) for a in module.body.block.first_op.body.block.args] == [(extent, 3)]
    assert checked(model).passed
    with pytest.raises(MissingShapesError, match=r'dims=\{"n": 1\}'):
        import_model(model)


@pytest.mark.parametrize("name", ["n - 9", "n // (n - 8)", "n + m"])
def test_dimensions_that_do_not_follow(name: str):
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 3] x) => (float[n] y) { y = Relu(x) }""")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = name
    with pytest.raises(MissingShapesError):
        import_model(model, dims={"n": 8})
    assert checked(model).passed


# Shapes given as values.


def test_shape_computations_fold():
    def constant(name: str, values) -> onnx.NodeProto:
        return helper.make_node("Constant", [], [name], value_ints=values)

    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Constant", [], ["zero"], value_int=0),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        constant("axis", [0]),
        helper.make_node("Unsqueeze", ["n", "axis"], ["n1"]),
        constant("rest", [-1]),
        helper.make_node("Concat", ["n1", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    model = model_of(nodes, [("x", [2, 3, 4])], ["y"])
    module = import_model(model)
    (function,) = module.ops
    # The computation is folded completely, including its constants.
    assert [op.name for op in function.regions[0].block.ops] == ["graph.reshape", "func.return"]
    check_model(model, {"x": np.ones((2, 3, 4), np.float32)})


def test_shapes_computed_from_weights(rng: np.random.Generator):
    """Exporters compute the padding to a multiple of a size in floats."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[3, 5] x, bool c) => (float[a, b] y, float[d] z)
        <float[1] extent = {5.0}, float[1] size = {4.0}, int64[3] zeros = {0, 0, 0},
         float[20] mask = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}> {
            most = ReduceMax<keepdims = 1>(extent)
            parts = Div(most, size)
            whole = Ceil(parts)
            wide = Mul(whole, size)
            more = Sub(wide, extent)
            end = Cast<to = 7>(more)
            pads = Concat<axis = 0>(zeros, end)
            y = Pad(x, pads)
            count = ReduceSum<keepdims = 1>(mask)
            length = Cast<to = 7>(count)
            z = ConstantOfShape(length)
        }""")
    check_model(model, {"x": rng.standard_normal((3, 5), np.float32), "c": np.array(True)})


def test_values_specialise_the_model():
    x, shape = np.arange(6, dtype=np.float32), np.array([2, 3], np.int64)
    model = node_model("Reshape", [x, shape])
    with pytest.raises(MissingValuesError, match="give the value, as in values"):
        import_model(model)
    module = import_model(model, values={"x1": shape})
    assert str(module.attributes["graph.inputs"]) == '["x0", "x1"]'
    check_model(model, {"x0": x, "x1": shape}, values={"x1": shape})


def test_values_must_have_the_input_s_type():
    model = node_model("Reshape", [np.ones(6, np.float32), np.array([2, 3], np.int64)])
    with pytest.raises(InputError, match="has type int64, its value is float32"):
        import_model(model, values={"x1": np.array([2, 3], np.float32)})


def test_all_missing_values_are_told_at_once():
    nodes = [
        helper.make_node("Cast", ["a"], ["ai"], to=INT64),
        helper.make_node("Reshape", ["x", "ai"], ["h"], name="first"),
        helper.make_node("Cast", ["b"], ["bi"], to=INT64),
        helper.make_node("Expand", ["x", "bi"], ["y"], name="second"),
    ]
    model = model_of(nodes, [("x", [4]), ("a", [2]), ("b", [2])], ["h", "y"])
    with pytest.raises(MissingValuesError) as caught:
        import_model(model)
    assert caught.value.inputs == ("a", "b")


# Tests of model functions.


def test_model_functions_are_inlined(rng: np.random.Generator):
    body = [
        helper.make_node("LeakyRelu", ["a"], ["h"]),
        helper.make_node("Add", ["h", "a"], ["b"]),
    ]
    body[0].attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    function = helper.make_function(
        "mine", "F", ["a"], ["b"], body, [helper.make_opsetid("", 17)], attributes=["slope"]
    )
    node = helper.make_node("F", ["x"], ["y"], domain="mine", slope=0.5)
    model = model_of([node], [("x", [3, 4])], ["y"], functions=[function])
    assert op_names(import_model(model)) == ["leaky_relu", "add"]
    check_model(model, {"x": rng.standard_normal((3, 4)).astype(np.float32)})


@pytest.mark.parametrize("op_type", ["Celu", "ThresholdedRelu", "Softsign", "Shrink"])
def test_operators_that_onnx_defines_by_others(op_type: str, rng: np.random.Generator):
    check_node(op_type, rng.standard_normal((3, 4)).astype(np.float32), opset=18)


def test_mean_variance_normalization(rng: np.random.Generator):
    x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    check_node("MeanVarianceNormalization", x, opset=13, tolerance=1e-4)


# Tests of branches.


@pytest.mark.parametrize("flag", [True, False])
def test_a_known_branch_is_taken(flag: bool):
    branches = {
        f"{side}_branch": helper.make_graph(
            [helper.make_node(op_type, ["h"], [f"{side}_y"])],
            side,
            [],
            [helper.make_empty_tensor_value_info(f"{side}_y")],
        )
        for side, op_type in (("then", "Neg"), ("else", "Exp"))
    }
    nodes = [relu("x", "h"), helper.make_node("If", ["flag"], ["y"], name="choice", **branches)]
    model = model_of(nodes, [("x", [2])], ["y"], {"flag": np.array(flag)})
    assert op_names(import_model(model)) == ["relu", "neg" if flag else "exp"]
