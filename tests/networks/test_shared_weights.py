"""A weight that several operators read is stored once, whatever form they read it in."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tcopt

STEPS = 6


def _chain(
    operator: str, weight: np.ndarray, shape: tuple[int, ...], **attributes: object
) -> bytes:
    """`STEPS` times the same operator with the same weight, as an unrolled recurrence has it."""
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
    # Winograd's form of a 3x3 kernel is 36 numbers for 9.
    assert compiled.program.weights.nbytes < 4.5 * values.nbytes
    feeds = {"x0": rng.standard_normal(shape).astype(np.float32)}
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    for ours, theirs in zip(compiled.run(feeds), session.run(None, feeds), strict=True):
        # Sums of 600 products, six times over.
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5 * np.abs(theirs).max())
