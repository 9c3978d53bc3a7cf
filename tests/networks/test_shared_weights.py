"""A weight with several users is stored once for each layout they share."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tcopt

STEPS = 6


def _chain(
    operator: str, weight: np.ndarray, shape: tuple[int, ...], **attributes: object
) -> bytes:
    """`STEPS` copies of an operator with the same weight, as in an unrolled recurrence."""
    nodes = [
        helper.make_node(operator, [f"x{step}", "w"], [f"x{step + 1}"], **attributes)
        for step in range(STEPS)
    ]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(f"x{STEPS}", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()


@pytest.mark.nightly(every=5)
@pytest.mark.parametrize(
    ("operator", "weight", "shape", "attributes"),
    [
        ("Gemm", (200, 200), (1, 200), {"transB": 1}),
        ("MatMul", (200, 200), (5, 200), {}),
        ("Conv", (64, 64, 3, 3), (1, 64, 12, 12), {"pads": [1, 1, 1, 1]}),
        ("Conv", (64, 64, 1, 1), (1, 64, 12, 12), {}),
        ("ConvTranspose", (32, 32, 3, 3), (1, 32, 5, 5), {"pads": [1, 1, 1, 1]}),
    ],
    ids=lambda value: "x".join(map(str, value)) if isinstance(value, tuple) else str(value)[:14],
)
def test_weights_are_stored_once(operator, weight, shape, attributes):
    rng = np.random.default_rng(0)
    scale = (np.prod(weight) / max(weight[:2])) ** -0.5
    values = (scale * rng.standard_normal(weight)).astype(np.float32)
    model = _chain(operator, values, shape, **attributes)
    compiled = tcopt.compile(model)
    # Winograd stores 36 values for 9 of a 3x3 kernel.
    assert compiled.program.weights.nbytes < 4.5 * values.nbytes
    feeds = {"x0": rng.standard_normal(shape).astype(np.float32)}
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    for ours, theirs in zip(compiled.run(feeds), session.run(None, feeds), strict=True):
        # Tolerance for sums of 600 products, in six steps.
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5 * np.abs(theirs).max())


@pytest.mark.parametrize("rows", [1, 3])
def test_an_unrolled_recurrence(rows):
    """Inputs are multiplied by their weights together, states one after the other."""
    width, steps = 160, 5
    rng = np.random.default_rng(rows)
    u, w = (0.1 * rng.standard_normal((2, width, width))).astype(np.float32)
    nodes = [
        helper.make_node("Split", ["x"], [f"x{t}" for t in range(steps)], axis=0, num_outputs=steps)
    ]
    for t in range(steps):
        nodes += [
            helper.make_node("Squeeze", [f"x{t}", "zero"], [f"r{t}"]),
            helper.make_node("Gemm", [f"r{t}", "w", "b"], [f"i{t}"], transB=1),
            helper.make_node("MatMul", [f"h{t}", "u"], [f"s{t}"]),
            helper.make_node("Add", [f"i{t}", f"s{t}"], [f"a{t}"]),
            helper.make_node("Tanh", [f"a{t}"], [f"h{t + 1}"]),
        ]
    values = {"w": w, "u": u, "b": w[0], "zero": np.array([0])}
    graph = helper.make_graph(
        nodes,
        "recurrence",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, (steps, rows, width)),
            helper.make_tensor_value_info("h0", TensorProto.FLOAT, (rows, width)),
        ],
        [helper.make_tensor_value_info(f"h{steps}", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8
    data = model.SerializeToString()
    feeds = {
        "x": rng.standard_normal((steps, rows, width)).astype(np.float32),
        "h0": rng.standard_normal((rows, width)).astype(np.float32),
    }
    compiled = tcopt.compile(data)
    assert compiled.program.weights.nbytes < 1.2 * (u.nbytes + w.nbytes)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    # Results are in [-1, 1]; sums of 160 products, in five steps.
    np.testing.assert_allclose(
        compiled.run(feeds)[0], session.run(None, feeds)[0], rtol=0, atol=2e-5
    )
