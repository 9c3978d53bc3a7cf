"""Loops, scans, branches and sequences, against onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tcopt
from models.checks import check_model, op_names, run_imported, run_reference
from tcopt.frontends.onnx import MissingValuesError, import_model
from tcopt.frontends.onnx import check_model as checked
from tcopt.support.errors import ImportModelError, TcoptError, UnsupportedError

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
RNG = np.random.default_rng(4)


def info(name, kind=F32, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, weights=(), opset=16):
    weights = [numpy_helper.from_array(np.asarray(v), k) for k, v in dict(weights).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def ops(module):
    (*_, main) = module.ops
    return [op.name.removeprefix("graph.") for op in main.body.block.ops]


def cumulating_loop(steps):
    """Return a loop body: h = tanh(h * w + x); collects h."""
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["h", "w"], ["m"]),
            helper.make_node("Add", ["m", "x"], ["s"]),
            helper.make_node("Tanh", ["s"], ["new"]),
            helper.make_node("Identity", ["c"], ["goes"]),
            helper.make_node("Identity", ["new"], ["row"]),
        ],
        "body",
        [info("i", I64, []), info("c", BOOL, []), info("h", F32, [3])],
        [info("goes", BOOL, []), info("new", F32, [3]), info("row", F32, [3])],
    )
    node = helper.make_node("Loop", ["steps", "", "h0"], ["last", "rows"], body=body)
    weights = {"steps": np.array(steps), "w": np.array([0.5, -1, 2], np.float32)}
    outputs = [info("last"), info("rows")]
    return model([node], [info("h0", F32, [3]), info("x", F32, [3])], outputs, weights)


@pytest.mark.parametrize("steps", [0, 1, 5, 40])
def test_loop_with_a_known_count(steps):
    feeds = {"h0": RNG.random(3).astype(np.float32), "x": RNG.random(3).astype(np.float32)}
    check_model(cumulating_loop(steps), feeds)


def test_long_loops_become_one_function():
    module = import_model(cumulating_loop(40))
    assert "scan" in ops(module)
    assert len(list(module.ops)) == 2
    assert "scan" not in ops(import_model(cumulating_loop(5)))


def test_loop_that_ends_by_its_condition():
    body = helper.make_graph(
        [
            helper.make_node("Less", ["i", "limit"], ["goes"]),
            helper.make_node("Concat", ["h", "x"], ["new"], axis=0),
        ],
        "body",
        [info("i", I64, []), info("c", BOOL, []), info("h", F32, [None])],
        [info("goes", BOOL, []), info("new", F32, [None])],
    )
    node = helper.make_node("Loop", ["", "yes", "x"], ["y"], body=body)
    weights = {"yes": np.array(True), "limit": np.array(2)}
    check_model(
        model([node], [info("x", F32, [2])], [info("y")], weights),
        {"x": np.array([1, 2], np.float32)},
    )


def rate_model(condition, *, nested=False):
    """Depending on a condition, products for rows of 4 or of 6; each branch is invalid for the
    other."""

    def branch(name, extent):
        nodes = [
            helper.make_node("MatMul", ["x", f"w{extent}"], [f"p{extent}"]),
            helper.make_node("Relu", [f"p{extent}"], [name]),
        ]
        if nested:
            inner = helper.make_graph(nodes, name, [], [info(name)])
            other = helper.make_graph(
                [helper.make_node("Reshape", ["x", "five"], [f"{name}_o"])],
                "o",
                [],
                [info(f"{name}_o")],
            )
            nodes = [
                helper.make_node("If", ["yes"], [f"{name}_i"], then_branch=inner, else_branch=other)
            ]
            return helper.make_graph(nodes, "n", [], [info(f"{name}_i")])
        return helper.make_graph(nodes, name, [], [info(name)])

    weights = {
        "w4": RNG.random((4, 2)).astype(np.float32),
        "w6": RNG.random((6, 2)).astype(np.float32),
        "zero": np.array(0.0, np.float32),
        "five": np.array([5, 5]),
        "rate": np.array(8000),
        "yes": np.array(True),
    }
    node = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch("a", 4), else_branch=branch("b", 6)
    )
    inputs = [info("x", F32, [3, None]), info("sr", I64, [])]
    return model([*condition, node], inputs, [info("y")], weights)


BY_RATE = [helper.make_node("Equal", ["sr", "rate"], ["c"])]
BY_DATA = [
    helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
    helper.make_node("Greater", ["s", "zero"], ["c"]),
]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("condition", [BY_RATE, BY_DATA], ids=["rate", "data"])
def test_a_branch_that_is_not_taken_may_make_no_sense(condition, nested):
    """A branch that is invalid for the current sizes fails only if it is taken."""
    net = rate_model(condition, nested=nested)
    compiled = tcopt.compile(net, workers=0)
    for extent, rate, sign in ((4, 8000, 1), (6, 16000, -1), (4, 8000, 1)):
        x = (sign * RNG.random((3, extent))).astype(np.float32)
        feeds = {"x": x, "sr": np.array(rate)}
        (expected,) = run_reference(net, feeds)
        np.testing.assert_allclose(compiled.run(feeds)[0], expected, rtol=1e-6)
    with pytest.raises(TcoptError, match="MatMul"):
        x = np.full((3, 6), 0.5, np.float32)
        compiled.run({"x": x, "sr": np.array(8000)})


def test_a_condition_decides_between_a_branch_and_an_error():
    """If the condition is unknown, the error describes what is wrong with the branch."""
    net = rate_model(BY_RATE)
    with pytest.raises(MissingValuesError, match=r"one of whose branches fails.*MatMul") as caught:
        import_model(net, shapes={"x": [3, 4]})
    assert caught.value.inputs == ("sr",)
    import_model(net, shapes={"x": [3, 4]}, values={"sr": np.array(8000)})
    report = checked(net, shapes={"x": [3, 4]})
    assert report.passed and [error.inputs for error in report.at_first_run] == [("sr",)]


def test_branches_that_both_fail_are_an_error():
    with pytest.raises(ImportModelError, match="MatMul"):
        import_model(rate_model(BY_RATE), shapes={"x": [3, 5]})
    assert len(checked(rate_model(BY_RATE), shapes={"x": [3, 5]}).problems) == 2


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("backwards", [0, 1])
def test_scan(axis, backwards):
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "r"], ["new"]),
            helper.make_node("Mul", ["new", "k"], ["out"]),
        ],
        "body",
        [info("s", F32, [4]), info("r", F32, [4])],
        [info("new", F32, [4]), info("out", F32, [4])],
    )
    directions = {"scan_input_directions": [backwards], "scan_output_directions": [backwards]}
    node = helper.make_node(
        "Scan",
        ["s0", "xs"],
        ["last", "rows"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[axis],
        **directions,
    )
    shape = [5, 4] if axis == 0 else [4, 5]
    inputs = [info("s0", F32, [4]), info("xs", F32, shape), info("k", F32, [4])]
    feeds = {
        v.name: RNG.random([d.dim_value for d in v.type.tensor_type.shape.dim]) for v in inputs
    }
    feeds = {name: value.astype(np.float32) for name, value in feeds.items()}
    check_model(model([node], inputs, [info("last"), info("rows")]), feeds)


def branches(condition_is_input):
    then = helper.make_graph([helper.make_node("Relu", ["x"], ["a"])], "t", [], [info("a")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "e", [], [info("b")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    inputs = [info("x", F32, [6])]
    weights = {} if condition_is_input else {"c": np.array(True)}
    inputs += [info("c", BOOL, [])] if condition_is_input else []
    return model([node], inputs, [info("y")], weights)


def test_branch_with_a_known_condition():
    assert op_names(import_model(branches(False))) == ["relu"]


@pytest.mark.parametrize("condition", [False, True])
def test_branch_with_a_computed_condition(condition):
    x = RNG.standard_normal(6).astype(np.float32)
    check_model(branches(True), {"x": x, "c": np.array(condition)})


def test_sequences_are_taken_apart():
    nodes = [
        helper.make_node("SplitToSequence", ["x", "three"], ["s"], axis=1),
        helper.make_node("SequenceAt", ["s", "one"], ["a"]),
        helper.make_node("SequenceErase", ["s", "one"], ["t"]),
        helper.make_node("SequenceInsert", ["t", "a", "minus"], ["u"]),
        helper.make_node("ConcatFromSequence", ["u"], ["y"], axis=1),
        helper.make_node("SequenceLength", ["u"], ["n"]),
    ]
    weights = {"three": np.array(3), "one": np.array(1), "minus": np.array(-1)}
    x = RNG.random((2, 8)).astype(np.float32)
    outputs = [info("y"), info("n", I64)]
    check_model(model(nodes, [info("x", F32, [2, 8])], outputs, weights), {"x": x})


def test_nodes_may_follow_the_bodies_that_use_them():
    then = helper.make_graph([helper.make_node("Neg", ["a"], ["t"])], "t", [], [info("t")])
    other = helper.make_graph([helper.make_node("Abs", ["a"], ["e"])], "e", [], [info("e")])
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
        helper.make_node("Relu", ["x"], ["a"]),
    ]
    x = np.array([-1, 2], np.float32)
    made = model(nodes, [info("x", F32, [2])], [info("y")], {"c": np.array(True)})
    np.testing.assert_array_equal(run_imported(made, {"x": x})[0], [-0.0, -2.0])


def test_position_outside_of_a_sequence():
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        helper.make_node("SequenceAt", ["s", "place"], ["y"], name="at"),
    ]
    made = model(nodes, [info("x", F32, [2])], [info("y")], {"place": np.array(2)})
    with pytest.raises(ImportModelError, match=r"position 2 is outside of 2 elements.*at"):
        import_model(made)


def test_a_loop_that_never_ends_is_bounded():
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["goes"]), helper.make_node("Neg", ["h"], ["new"])],
        "body",
        [info("i", I64, []), info("c", BOOL, []), info("h", F32, [2])],
        [info("goes", BOOL, []), info("new", F32, [2])],
    )
    node = helper.make_node("Loop", ["", "", "x"], ["y"], body=body)
    with pytest.raises(UnsupportedError, match="more than 1024 iterations"):
        import_model(model([node], [info("x", F32, [2])], [info("y")]))
