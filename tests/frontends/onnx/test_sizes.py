"""Models with ranges of sizes: types at given sizes equal those of an import at these sizes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

import tcopt
from models.light_models import light_model
from tcopt.dialects.graph import SizesOp
from tcopt.dialects.graph.core.types import shape_of
from tcopt.frontends.onnx import import_model
from tcopt.frontends.onnx.model.errors import MissingShapesError, OpenSizeError
from tcopt.passes.fix_sizes import fix_sizes
from tcopt.support.arithmetic.size_ranges import GivenSize
from tcopt.support.errors import InputError, UnsupportedError
from tcopt.support.remarks import collect_remarks

RANGES: dict[str, GivenSize] = {"n": (2, 9), "m": (3, 16)}
VALUES = {"n": 4, "m": 8}


def parsed(body: str, inputs: str, outputs: str = "float[p] y", opset: int = 17) -> ModelProto:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft": 1]>\n'
        f"g ({inputs}) => ({outputs}) {{ {body} }}"
    )
    for info in model.graph.output:
        info.type.tensor_type.ClearField("shape")
    return model


def result_types(module: ModuleOp) -> list[Attribute]:
    (main,) = (f for f in module.ops if isinstance(f, FuncOp) and f.sym_name.data == "main")
    return [*main.function_type.outputs]


def check(
    model: ModelProto, ranges: Mapping[str, GivenSize], values: Mapping[str, int]
) -> ModuleOp:
    """Check the types of an import with ranges against imports at some of their values."""
    found = import_model(model, dims=ranges)
    found.verify()
    fixed = found.clone()
    fix_sizes(fixed, values)
    fixed.verify()
    wanted = import_model(model, dims=values)
    assert result_types(fixed) == result_types(wanted)
    if [op.name for op in fixed.walk()] == [op.name for op in wanted.walk()]:
        for mine, other in zip(fixed.walk(), wanted.walk(), strict=True):
            assert mine.result_types == other.result_types
    return found


ELEMENTWISE = {
    "relu": ("y = Relu(x)", "float[n, 3] x"),
    "broadcast": ("y = Add(x, z)", "float[n, 1, m] x, float[m] z"),
    "select": ("y = Where(c, x, z)", "bool[n, 1] c, float[n, m] x, float[m] z"),
    "matmul": ("y = MatMul(x, z)", "float[n, m, 4] x, float[n, 4, m] z"),
    "gemm": ("y = Gemm<transB = 1>(x, z, b)", "float[n, 4] x, float[m, 4] z, float[m] b"),
    "softmax": ("y = Softmax<axis = -1>(x)", "float[n, m] x"),
    "layer norm": ("y = LayerNormalization<axis = -1>(x, z)", "float[n, m, 8] x, float[8] z"),
    "mean": ("y = ReduceMean<axes = [1], keepdims = 0>(x)", "float[n, m, 8] x"),
    "argmax": ("i = ArgMax<axis = 1>(x) y = Cast<to = 1>(i)", "float[n, m] x"),
    "conv": ("y = Conv<pads = [1, 1, 1, 1]>(x, w)", "float[n, 3, m, 8] x, float[4, 3, 3, 3] w"),
    "strides": ("y = Conv<strides = [2, 3]>(x, w)", "float[1, 3, m, m] x, float[4, 3, 3, 3] w"),
    "pool": ("y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)", "float[n, 3, m, 8] x"),
    "ceil": (
        "y = MaxPool<kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1>(x)",
        "float[n, 3, m, 8] x",
    ),
    "gather": ("y = Gather(x, i)", "float[m, 5] x, int64[n] i"),
    "concat": ("y = Concat<axis = 0>(x, z, x)", "float[n, 3] x, float[m, 3] z"),
    "transpose": ("y = Transpose<perm = [1, 0, 2]>(x)", "float[n, m, 2] x"),
    "flatten": ("y = Flatten(x)", "float[n, m, 2] x"),
    "lstm": (
        "y, h, c = LSTM<hidden_size = 2>(x, w, r)",
        "float[5, n, 3] x, float[1, 8, 3] w, float[1, 8, 2] r",
    ),
    "quantised": ("q = QuantizeLinear(x, s) y = DequantizeLinear(q, s)", "float[n, m] x, float s"),
}


@pytest.mark.parametrize(("body", "inputs"), ELEMENTWISE.values(), ids=ELEMENTWISE)
def test_types_of_operators(body: str, inputs: str):
    check(parsed(body, inputs), *_used(inputs))


def _used(inputs: str) -> tuple[dict[str, GivenSize], dict[str, int]]:
    names = [name for name in VALUES if f"[{name}" in inputs or f", {name}" in inputs]
    return {name: RANGES[name] for name in names}, {name: VALUES[name] for name in names}


CONSTANTS = (
    "zero = Constant<value = int64[1] {0}>() one = Constant<value = int64[1] {1}>() "
    "two = Constant<value = int64[1] {2}>() last = Constant<value = int64[1] {-1}>() "
    "far = Constant<value = int64[1] {9223372036854775807}>() "
    "first = Constant<value = int64 {0}>() unit = Constant<value = int64 {1}>() "
)
SHAPES = {
    "rows and columns": "a = Concat<axis = 0>(rows, two, last) y = Reshape(x, a)",
    "product": "p = Mul(rows, columns) a = Concat<axis = 0>(p, two, two) y = Reshape(x, a)",
    "quotient": "h = Div(columns, two) y = Slice(x, zero, h, one)",
    "difference": "h = Sub(columns, one) y = Slice(x, h, far, one)",
    "last": "y = Slice(x, last, far, one)",
    "reversed": "y = Slice(x, last, min, one, last)",
    "expanded": "a = Concat<axis = 0>(columns, rows, one, two) b = Slice(x, zero, one, zero) "
    "c = Slice(b, zero, one, one) d = Slice(c, zero, one, two) y = Expand(d, a)",
    "filled": "a = Concat<axis = 0>(columns, rows) y = ConstantOfShape(a)",
    "tiled": "a = Concat<axis = 0>(rows, columns, two) y = Tile(x, a)",
    "range": "r = Squeeze(rows, zero) c = Squeeze(columns, zero) s = Add(r, c) "
    "y = Range(r, s, unit)",
    "chosen": "s = Shape(x) e = Equal(s, last3) z = ConstantOfShape(three) o = Cast<to = 7>(z) "
    "a = Where(e, o, s) y = Expand(x, a)",
    "extrema": "h = Max(columns, far2) k = Min(rows, h) a = Concat<axis = 0>(k, two) "
    "y = ConstantOfShape(a)",
    "number of elements": "c = Size(x) d = Unsqueeze(c, zero) y = Reshape(x, d)",
    "padded": "z4 = Concat<axis = 0>(zero, rows, zero, columns, zero, zero) y = Pad(x, z4)",
    "split": "y, z = Split<axis = 2>(x)",
    "clamped": "k = Constant<value = int64[1] {3}>() l = Constant<value = int64[1] {6}>() "
    "y = Slice(x, k, l, zero)",
}


@pytest.mark.parametrize("body", SHAPES.values(), ids=SHAPES)
def test_shape_arithmetic(body: str):
    more = (
        "min = Constant<value = int64[1] {-9223372036854775807}>() "
        "last3 = Constant<value = int64[3] {-1, -1, -1}>() "
        "three = Constant<value = int64[1] {3}>() far2 = Constant<value = int64[1] {2}>() "
        "s0 = Shape(x) rows = Slice(s0, zero, one, zero) columns = Slice(s0, one, two, zero) "
    )
    outputs = "int64[p] y" if "Range" in body else "float[p] y"
    found = check(parsed(CONSTANTS + more + body, "float[n, m, 4] x", outputs), RANGES, VALUES)
    is_used = "Range" in body
    assert any(isinstance(op, SizesOp) for op in found.walk()) == is_used


def test_parts_of_a_size():
    """The last part is smaller if the size is not a multiple of the number of parts."""
    body = "y, z, w = Split<axis = 1, num_outputs = 3>(x)"
    check(parsed(body, "float[2, m] x", opset=18), {"m": (3, 16)}, {"m": 8})


@pytest.mark.parametrize("name", ["light_resnet50", "light_shufflenet", "light_squeezenet"])
def test_batch_of_a_network(name: str):
    model = light_model(name)
    weights = {weight.name for weight in model.graph.initializer}
    (data,) = (info for info in model.graph.input if info.name not in weights)
    data.type.tensor_type.shape.dim[0].dim_param = "n"
    for weight in model.graph.initializer:
        # The batch of 1 in the shapes of reshapes is copied from the data instead.
        array = numpy_helper.to_array(weight).copy()
        if weight.data_type == onnx.TensorProto.INT64 and array.ndim == 1 and array[0] == 1:
            array[0] = 0
            weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    check(model, {"n": (1, 32)}, {"n": 3})


def test_one_name_is_one_size():
    model = parsed("y = Add(x, z)", "float[n, 3] x, float[m, 3] z")
    with pytest.raises(OpenSizeError, match="Add") as caught:
        import_model(model, dims=RANGES)
    assert caught.value.names == ("n", "m") and "one name" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "body",
    ["y = Reshape(x, a)", "y = Squeeze(x)", "y = Expand(x, a)"],
)
def test_undecided(body: str):
    constant = "a = Constant<value = int64[2] {4, 3}>() "
    with pytest.raises(OpenSizeError, match="n"):
        import_model(parsed(constant + body, "float[n, 3] x"), dims={"n": (1, 9)})


def test_slices_that_a_range_does_not_decide():
    """The program computes whether there are elements from an index on."""
    text = "a = Constant<value_ints = [4, 0]>() b = Constant<value_ints = [6, 2]>() "
    compiled = tcopt.compile(
        parsed(text + "y = Slice(x, a, b)", "float[n, 3] x"), dims={"n": (1, 9)}, workers=0
    )
    for rows in range(1, 10):
        x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        np.testing.assert_array_equal(compiled.run({"x": x})[0], x[4:6, :2])


def test_sizes_computed_with_floats_are_not_folded():
    body = "s = Shape(x) f = Cast<to = 1>(s) g = Sqrt(f) h = Cast<to = 7>(g) y = ConstantOfShape(h)"
    with pytest.raises(UnsupportedError, match="ConstantOfShape") as caught:
        import_model(parsed(body, "float[n] x"), dims={"n": (1, 9)})
    assert isinstance(caught.value, OpenSizeError)


def test_sizes_as_data():
    body = "s = Shape(x) f = Cast<to = 1>(s) y = Mul(x, f)"
    found = check(parsed(body, "float[n] x"), {"n": (2, 9)}, {"n": 4})
    assert any(isinstance(op, SizesOp) for op in found.walk())


def test_shapes_override_ranges():
    model = parsed("y = Relu(x)", "float[n, 3] x")
    (main,) = import_model(model, dims={"n": (2, 9)}, shapes={"x": (5, 3)}).ops
    assert shape_of(main.regions[0].block.args[0]) == (5, 3)


def test_ranges_that_fall_back_are_given_up():
    model = parsed("y = Squeeze(x)", "float[n, 1, m] x")
    ranges: dict[str, GivenSize] = {"n": "1..9?", "m": "1..9?"}
    with pytest.raises(MissingShapesError):
        import_model(model, dims=ranges)
    with pytest.raises(OpenSizeError):
        import_model(model, dims={**ranges, "m": "1..9", "n": 3})
    with collect_remarks() as remarks:
        (main,) = import_model(model, dims=ranges, shapes={"x": (2, 1, 3)}).ops
    assert shape_of(main.regions[0].block.args[0]) == (2, 1, 3) and not remarks
    with pytest.raises(InputError, match="n = 1"):
        import_model(model, dims=ranges, shapes={"x": (10, 1, 3)})
