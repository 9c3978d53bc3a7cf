"""Import a model, run it by the graph interpreter, and compare with onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np
import onnxruntime
from onnx import ModelProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tcopt.dialects.graph.core.weights import weights_of
from tcopt.frontends.onnx import import_model
from tcopt.interpreters.graph import run_module

onnxruntime.set_default_logger_severity(3)

# Largest error allowed, relative to the outputs' range.
TOLERANCE = 1e-5


def node_model(
    op_type: str,
    inputs: Sequence[np.ndarray | None],
    *,
    outputs: int = 1,
    opset: int = 17,
    constants: Sequence[int] = (),
    **attributes,
) -> ModelProto:
    """Return a model with one node. Operands are x0, x1, ...; those in `constants` are
    initializers."""
    names = ["" if array is None else f"x{i}" for i, array in enumerate(inputs)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op_type, names, results, name="node", **attributes)
    values, weights = [], []
    for index, (name, array) in enumerate(zip(names, inputs, strict=True)):
        if array is None:
            continue
        if index in constants:
            weights.append(numpy_helper.from_array(np.asarray(array), name))
        else:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            values.append(helper.make_tensor_value_info(name, kind, array.shape))
    undeclared = [helper.make_empty_tensor_value_info(name) for name in results]
    graph = helper.make_graph([node], "one", values, undeclared, weights)
    opsets = [helper.make_opsetid("", opset)]
    if "domain" in attributes:
        opsets.append(helper.make_opsetid(attributes["domain"], 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=min(10, 8 + opset // 19))


def exact_options() -> onnxruntime.SessionOptions:
    """Return options of an onnxruntime session with exact byte products.

    Without them, sums of two products saturate to 16 bits on CPUs with AVX2 but without VNNI.
    """
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = 4
    return options


Reference: TypeAlias = Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]


def reference_of(model: ModelProto) -> Reference:
    """Return a function that runs a model by onnxruntime without its optimisations."""
    options = exact_options()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return lambda feeds: cast("list[np.ndarray]", session.run(None, dict(feeds)))


def run_reference(model: ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Run onnxruntime without its optimisations."""
    return reference_of(model)(feeds)


def run_imported(model: ModelProto, feeds: Mapping[str, np.ndarray], **options) -> list[np.ndarray]:
    """Import the model and run the graph interpreter; the module must verify."""
    module = import_model(model, **options)
    module.verify()
    results = run_module(module, list(feeds.values()), weights=weights_of(module))
    count = len(model.graph.output)
    assert not any(check.any() for check in results[count:]), "the data is refused"
    return results[:count]


def check_model(
    model: ModelProto, feeds: Mapping[str, np.ndarray], tolerance: float = TOLERANCE, **options
) -> None:
    """Assert equal shapes and types, and values within `tolerance` of the output's range."""
    expected = run_reference(model, feeds)
    actual = run_imported(model, feeds, **options)
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        assert_close(ours, np.asarray(theirs), tolerance)


def check_node(
    op_type: str, *inputs: np.ndarray | None, tolerance: float = TOLERANCE, **options
) -> None:
    """Run `check_model` on `node_model`."""
    constants = options.get("constants", ())
    feeds = {f"x{i}": a for i, a in enumerate(inputs) if a is not None and i not in constants}
    check_model(node_model(op_type, inputs, **options), feeds, tolerance)


def assert_close(ours: np.ndarray, theirs: np.ndarray, tolerance: float) -> None:
    """Assert one output; integers and booleans must be equal."""
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    if ours.dtype.kind != "f" or not theirs.size:
        np.testing.assert_array_equal(ours, theirs)
        return
    finite = theirs[np.isfinite(theirs)].astype(np.float64)
    extent = np.ptp(finite) + np.abs(finite).max() if finite.size else 1.0
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * max(extent, 1e-6))


def imported_ops(module: ModuleOp) -> list[Operation]:
    """Return the ops of @main, without constants and the return."""
    (function,) = module.ops
    ops = function.regions[0].block.ops
    return [op for op in ops if op.name not in ("graph.constant", "func.return")]


def op_names(module: ModuleOp) -> list[str]:
    """Return the names of `imported_ops`, without `graph.`."""
    return [op.name.removeprefix("graph.") for op in imported_ops(module)]
