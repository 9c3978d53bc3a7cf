"""The Python API: values of expressions, and errors."""

import numpy as np
import pytest

from tcopt.dialects.te import api as te
from tcopt.dialects.te.numpy_kinds import NUMPY_KINDS
from tcopt.interpreters.te import run_func
from tcopt.support.ir.verify import verify


def run(outputs, **arrays):
    """Evaluate outputs on arrays of placeholders, by name."""
    tensors = {name: tensor for name, (tensor, _) in arrays.items()}
    function = te.func("f", list(tensors.values()), outputs)
    verify(function)
    return run_func(function, [array for _, array in arrays.values()])


def given(array, dtype=None, name="x"):
    """Return a placeholder for an array, and the array."""
    array = np.asarray(array)
    names = {"b": "i1", "i": f"i{8 * array.itemsize}", "u": f"ui{8 * array.itemsize}"}
    dtype = dtype or names.get(array.dtype.kind, f"f{8 * array.itemsize}")
    return te.placeholder(array.shape, dtype, name), array


def elementwise(function, *arrays):
    """Evaluate a scalar function elementwise over arrays of one shape."""
    pairs = {f"x{n}": given(array) for n, array in enumerate(arrays)}
    tensors = [tensor for tensor, _ in pairs.values()]
    stage = te.compute(arrays[0].shape, lambda *i: function(*(t[i] for t in tensors)))
    (result,) = run(stage, **pairs)
    return result


NUMBERS = np.array([-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5], np.float32)
INTEGERS = np.array([-7, -3, -1, 0, 1, 3, 7], np.int32)
BYTES = np.array([0, 1, 127, 128, 200, 254, 255], np.uint8)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (te.abs, np.abs),
        (te.floor, np.floor),
        (te.ceil, np.ceil),
        (te.trunc, np.trunc),
        (te.round, np.rint),
        (te.tanh, np.tanh),
        (te.exp, np.exp),
        (te.sin, np.sin),
        (lambda x: -x, np.negative),
        (lambda x: 1 - x, lambda x: 1 - x),
        (lambda x: x // 2.0, lambda x: x // 2),
        (lambda x: x % 2.0, lambda x: x % 2),
        (lambda x: te.fmod(x, 2.0), lambda x: np.fmod(x, 2)),
        (lambda x: x**2, lambda x: x**2),
        (lambda x: x**3, lambda x: x**3),
        (lambda x: te.select(x != x, x, te.maximum(x, 0)), lambda x: np.maximum(x, 0)),
        (lambda x: te.cast(te.cast(x, "i32"), "f32"), np.trunc),
        (lambda x: te.cast(te.any(x > 1, x < -1), "f32"), lambda x: np.abs(x) > 1),
        (lambda x: te.cast(te.all(x > -1, x < 1), "f32"), lambda x: np.abs(x) < 1),
        (lambda x: te.cast(te.logical_not(x > 0), "f32"), lambda x: x <= 0),
    ],
)
def test_functions_of_floats(function, expected):
    np.testing.assert_allclose(elementwise(function, NUMBERS), expected(NUMBERS), rtol=1e-6)


@pytest.mark.parametrize("name", sorted(NUMPY_KINDS))
def test_functions_of_numpy(name):
    """A ufunc of expressions is the expression of the same function."""
    function = getattr(np, name)
    bits = name.startswith(("bitwise", "left", "right"))
    x = np.array([0, 1, 2, 5], np.int32) if bits else np.array([0.25, -0.5, 1.5, 0.75], np.float32)
    arrays = (x, x[::-1].copy())[: function.nin]
    if name.startswith("arc") or name in ("log", "sqrt", "power"):
        arrays = tuple(np.abs(a) + (name == "arccosh") for a in arrays)
    with np.errstate(invalid="ignore"):
        expected = function(*arrays)
        np.testing.assert_allclose(elementwise(function, *arrays), expected, rtol=1e-6)


def test_numpy_scalars_and_choices():
    def function(x):
        return np.where(x > np.float32(0), np.float32(2) * x, np.float64(1) - x)

    np.testing.assert_allclose(elementwise(function, NUMBERS), function(NUMBERS), rtol=1e-6)


@pytest.mark.parametrize("function", [np.cbrt, np.median, np.nan_to_num])
def test_other_functions_of_numpy_are_named(function):
    with pytest.raises(te.ExpressionError, match=f"np.{function.__name__} "):
        elementwise(function, NUMBERS)


@pytest.mark.parametrize("divisor", [-3, 2])
def test_signed_division(divisor):
    """`/` rounds towards zero, `//` down; `%` takes the divisor's sign, fmod the dividend's."""
    by = np.full_like(INTEGERS, divisor)
    assert (elementwise(lambda a, b: a / b, INTEGERS, by) == np.trunc(INTEGERS / by)).all()
    assert (elementwise(lambda a, b: a // b, INTEGERS, by) == INTEGERS // by).all()
    assert (elementwise(lambda a, b: a % b, INTEGERS, by) == INTEGERS % by).all()
    assert (elementwise(te.fmod, INTEGERS, by) == np.fmod(INTEGERS, by)).all()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: te.cast(x, "f32"), lambda x: x.astype(np.float32)),
        (lambda x: te.cast(te.cast(x, "i32"), "f32"), lambda x: x.astype(np.float32)),
        (lambda x: te.cast(x / 7, "f32"), lambda x: x // 7),
        (lambda x: te.cast(x % 7, "f32"), lambda x: x % 7),
        (lambda x: te.cast(x > 100, "f32"), lambda x: x > 100),
        (lambda x: te.cast(te.shift_right(x, 1), "f32"), lambda x: x >> 1),
        (lambda x: te.cast(te.cast(te.cast(x, "f32"), "ui8"), "f32"), lambda x: x),
    ],
)
def test_unsigned_integers_choose_unsigned_operations(function, expected):
    np.testing.assert_array_equal(elementwise(function, BYTES), expected(BYTES))


def test_a_shared_expression_is_emitted_once():
    x = te.placeholder((4,), name="x")

    def body(i):
        e = te.exp(x[i])
        return e * e

    stage = te.func("f", [x], te.compute((4,), body)).stages[0]
    assert [op.name for op in stage.body.block.ops].count("math.exp") == 1


def test_axes_are_named_after_the_parameters():
    x = te.placeholder((4, 5), name="x")
    stage = te.func("f", [x], te.compute((5, 4), lambda row, col: x[col, row])).stages[0]
    assert [axis.name_hint for axis in stage.body.block.args] == ["row", "col"]


def test_stages_of_one_name_are_numbered():
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] + 1.0, name="add")
    z = te.compute((4,), lambda i: y[i] + 1.0, name="add")
    function = te.func("f", [x], z)
    assert [stage.stage.data for stage in function.stages] == ["add", "add_1"]


def test_if_then_else_lets_each_branch_leave_its_tensor():
    a, b = given(np.arange(3, dtype=np.float32)), given(np.arange(2, dtype=np.float32))
    joined = te.compute((5,), lambda i: te.if_then_else(i < 3, a[0][i], b[0][i - 3] * 10.0))
    (result,) = run(joined, a=a, b=b)
    assert result.tolist() == [0, 1, 2, 0, 10]


def test_a_computed_index_gathers_rows():
    table = given(np.arange(12, dtype=np.float32).reshape(4, 3))
    rows = given(np.array([3, 0, 3]))
    taken = te.compute((3, 3), lambda i, j: table[0][te.index(rows[0][i]), j])
    (result,) = run(taken, table=table, rows=rows)
    np.testing.assert_array_equal(result, table[1][rows[1]])


def test_an_axis_is_a_value_where_arithmetic_asks_for_one():
    x = given(np.ones(4, np.float32))
    (result,) = run(te.compute((4,), lambda i: x[0][i] * 0.5 + (2 * i + 1)), x=x)
    assert result.tolist() == [1.5, 3.5, 5.5, 7.5]


def test_an_output_may_be_an_input_and_given_twice():
    x = given(np.ones(4, np.float32))
    y = te.compute((4,), lambda i: x[0][i] + 1.0)
    results = run([x[0], y, y], x=x)
    assert [r.tolist() for r in results] == [[1] * 4, [2] * 4, [2] * 4]


@pytest.mark.parametrize("combine", [te.max, te.min])
@pytest.mark.parametrize("array", [BYTES, INTEGERS, NUMBERS, NUMBERS > 0])
def test_extrema_respect_the_type(combine, array):
    x = given(array)
    k = te.reduce_axis(len(array))
    (result,) = run(te.compute((), lambda: combine(x[0][k], axis=k)), x=x)
    expected = array.max() if combine is te.max else array.min()
    assert result.view(array.dtype) == expected


@pytest.mark.parametrize(
    ("combine", "identity"), [(te.sum, 0), (te.prod, 1), (te.max, -np.inf), (te.min, np.inf)]
)
def test_a_reduction_of_nothing_is_its_identity(combine, identity):
    x = given(np.zeros((2, 0), np.float32))
    k = te.reduce_axis(0)
    (result,) = run(te.compute((2,), lambda i: combine(x[0][i, k], axis=k)), x=x)
    assert result.tolist() == [identity] * 2


X = te.placeholder((4,), name="x")
N = te.placeholder((4,), "i32", "n")
K = te.reduce_axis(4, "k")
OTHER = te.compute((4,), lambda i: X[i]).axes[0]

MISTAKES = {
    "rank": (lambda i: X[i, i], "'x' of rank 1 is read with 2 indices"),
    "types": (lambda i: X[i] + N[i], "operands of 'add' have types f32 and i32.*te.cast"),
    "nested reduction": (lambda i: te.sum(X[K], axis=K) * 2.0, "must be the whole expression"),
    "loose reduce axis": (lambda i: X[K], r"uses reduce axis 'k'.*te.sum\(\.\.\., axis"),
    "foreign axis": (lambda i: X[OTHER], "uses axis 'i', which does not belong to it"),
    "spatial axis reduced": (lambda i: te.sum(X[i], axis=i), "'i' is not a reduce axis"),
    "value as index": (lambda i: X[N[i]], "convert it to an index with te.index"),
    "float index": (lambda i: X[te.index(X[i])], "an index must be an integer, got f32"),
    "truth value": (lambda i: X[i] if X[i] > 0 else 0.0, "has no truth value"),
    "index product": (lambda i: X[i * i], "is not affine"),
    "true division of an index": (lambda i: X[i / 2], "use '//'"),
    "exp of an integer": (lambda i: te.exp(N[i]), "'exp' needs floats, got i32"),
    "fraction as integer": (lambda i: N[i] + 0.5, "0.5 is not a value of i32"),
    "unknown dtype": (lambda i: te.cast(X[i], "float"), "unknown dtype 'float'"),
    "out of bounds": (lambda i: X[i + 1], r"stage 's' reads 'x' at index 0.*leaves \[0, 4\)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_explained(mistake):
    body, message = MISTAKES[mistake]
    with pytest.raises(te.ExpressionError, match=message):
        te.func("f", [X, N], te.compute((4,), body, name="s"))


def test_a_missing_input_is_reported():
    with pytest.raises(te.ExpressionError, match="placeholder 'n' is not among the inputs"):
        te.func("f", [X], te.compute((4,), lambda i: N[i]))
