"""Contiguous slices as views: random graphs, loops over time, and which users copy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx.parser
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, f32
from xdsl.ir import Block, Region, SSAValue

import tcopt
from running.examples import examples
from tcopt.compiler import lower, pipeline
from tcopt.dialects import graph, loop
from tcopt.dialects.graph import tensor
from tcopt.dialects.graph.core.types import shape_of
from tcopt.frontends.onnx import import_model
from tcopt.interpreters import graph as graph_interpreter
from tcopt.interpreters import te as te_interpreter
from tcopt.support.ir.verify import verify
from tcopt.support.pipelines.phases import Phase
from tcopt.tools.execution import loop_executor

TO_TE = "fuse-ops,lower-graph-to-te"

places = st.integers(0, 2**16)
steps = st.tuples(
    st.sampled_from(["outer", "outer", "any", "flat", "whole", "neg", "twice", "concat", "matmul"]),
    places,
    places,
    places,
)
shapes = st.lists(st.sampled_from([1, 2, 3, 4, 8, 16]), min_size=1, max_size=4)


def build(shape: Sequence[int], choices: Sequence[tuple[str, int, int, int]]) -> ModuleOp:
    """Return a graph from a list of (kind, operand, and two numbers that select a range)."""
    block = Block(arg_types=[tensor(shape, f32)])
    values: list[SSAValue] = [block.args[0]]

    def emit(op: graph.GraphOp) -> SSAValue:
        block.add_op(op)
        return op.results[0]

    def part(x: SSAValue, axes: Sequence[int], low: int, high: int) -> SSAValue:
        starts, extents = [0] * len(shape_of(x)), list(shape_of(x))
        for axis in axes:
            starts[axis] = low % extents[axis]
            extents[axis] = 1 + high % (extents[axis] - starts[axis])
        return emit(graph.SliceOp(x, starts, extents))

    for kind, which, low, high in choices:
        x = values[which % len(values)]
        extents = shape_of(x)
        match kind:
            case "outer":
                outer = next((a for a, n in enumerate(extents) if n > 1), 0)
                new = part(x, [outer], low, high)
            case "any":
                new = part(x, range(len(extents)), low, high)
            case "flat":
                new = emit(graph.ReshapeOp(x, [-1]))
            case "whole":
                new = emit(graph.ReshapeOp(x, [1, *extents]))
            case "neg":
                new = emit(graph.NegOp(x))
            case "twice":
                new = emit(graph.AddOp(x, x))
            case "concat":
                new = emit(graph.ConcatOp([part(x, [0], low, high), x], axis=0))
            case _:
                row = emit(graph.ReshapeOp(x, [1, -1]))
                new = emit(graph.MatmulOp(row, row, transpose_b=True))
        values.append(new)
    results = [values[-1], values[-2], values[len(values) // 2]]
    block.add_op(func.ReturnOp(*results))
    type_ = FunctionType.from_lists([tensor(shape, f32)], [value.type for value in results])
    return ModuleOp([func.FuncOp("main", type_, Region(block))])


def inputs_of(shape: Sequence[int]) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(tuple(shape)).astype(np.float32)


def assert_near(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> None:
    # A few sums of squares in another order, and moved elements.
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * float(np.abs(b).max()))


def run_loops(module: ModuleOp, x: np.ndarray, like: Sequence[np.ndarray]) -> list[np.ndarray]:
    results = [np.full_like(array, np.nan) for array in like]
    loop_executor.run_module(module, [x, *results])
    return results


@settings(max_examples=examples(25), deadline=None)
@given(shapes, st.lists(steps, min_size=1, max_size=8))
def test_random_slices(shape, choices):
    module = build(shape, choices)
    x = inputs_of(shape)
    expected = graph_interpreter.run_module(module, [x])
    lower(module, [Phase("te", TO_TE)])
    verify(module)
    assert_near(te_interpreter.run_module(module, [x]), expected)
    lower(module, [Phase("loop", "lower-te-to-loop")])
    verify(module)
    assert_near(run_loops(module, x, expected), expected)
    lower(module, [Phase("memory", "lower-blocks,lower-loop-to-kernel,plan-memory")])
    verify(module)


SPLIT = """
<ir_version: 9, opset_import: ["" : 18]>
split (float[1, 8, 16] x, float[3, 16, 16] w) => (float[1, 8, 16] y, float[1, 8, 16] last)
<int64[3] ones = {1, 1, 1}> {
  p = MatMul(x, w)
  q, k, v = Split<axis = 0>(p, ones)
  t = Transpose<perm = [0, 2, 1]>(k)
  s = MatMul(q, t)
  y = MatMul(s, v)
  last = Identity(v)
}
"""


def split_model() -> onnx.ModelProto:
    return onnx.parser.parse_model(SPLIT)


def calls(model: onnx.ModelProto, target: str) -> list[str]:
    module = import_model(model)
    lower(module, pipeline(target)[:4])
    return [op.callee.string_value() for op in module.walk() if isinstance(op, loop.CallOp)]


def test_a_split_in_front_of_products_copies_nothing():
    """A split before products copies only the part that is also returned."""
    for target in ("cpu:haswell", "opencl"):
        names = calls(split_model(), target)
        assert [n for n in names if n.startswith(("slice", "copy"))] == ["copy_128_f32"]


def test_a_compiled_split():
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((1, 8, 16), (3, 16, 16)))
    q, k, v = (x @ w)[:, None]
    expected = [q @ k.transpose(0, 2, 1) @ v, v]
    compiled = tcopt.compile(split_model())
    for _ in range(2):
        for ours, theirs in zip(compiled.run({"x": x, "w": w}), expected, strict=True):
            assert_near([ours], [theirs.reshape(ours.shape)])
