"""Slices move before the producers of their operand: same results, less work."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, f32
from xdsl.ir import Block, Region, SSAValue

from running.examples import examples
from tcopt.dialects import graph
from tcopt.dialects.graph import tensor
from tcopt.interpreters.graph import run_module
from tcopt.passes.graph.motion.followed_axes import followed_axes
from tcopt.passes.graph.motion.hoist_slices import HoistSlicesPass
from tcopt.support.ir.verify import verify

SHAPE = (4, 6, 8)
SQUARE = np.linspace(-1, 1, 64, dtype="f4").reshape(8, 8)
ROW = np.linspace(0.5, 2, 8, dtype="f4")
ORDER = np.array([3, 1, 0, 5, 2, 4], np.int64)


class Builder:
    """Builder of ops in a block; values have one shape, slices any."""

    def __init__(self):
        self.block = Block(arg_types=[tensor(SHAPE, f32)])
        self.values: list[SSAValue] = [self.block.args[0]]
        self.parts: list[SSAValue] = []

    def emit(self, op: graph.GraphOp) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def constant(self, value: np.ndarray) -> SSAValue:
        return self.emit(graph.ConstantOp.literal(value))

    def attention(self, x: SSAValue, number: int) -> SSAValue:
        keys = self.values[number % len(self.values)]
        return self.emit(graph.MatmulOp(self.emit(graph.MatmulOp(x, keys, transpose_b=True)), keys))

    def transposed(self, x: SSAValue) -> SSAValue:
        mixed = self.emit(graph.SoftmaxOp(self.emit(graph.TransposeOp(x, [1, 0, 2])), axis=2))
        return self.emit(graph.TransposeOp(mixed, [1, 0, 2]))

    def reshaped(self, x: SSAValue, shape: list[int]) -> SSAValue:
        mixed = self.emit(graph.SoftmaxOp(self.emit(graph.ReshapeOp(x, shape))))
        return self.emit(graph.ReshapeOp(mixed, SHAPE))

    def less_mean(self, x: SSAValue, axis: int) -> SSAValue:
        return self.emit(
            graph.SubOp(x, self.emit(graph.ReduceOp(x, kind="mean", axes=[axis], keepdims=True)))
        )

    def cut(self, x: SSAValue, number: int, step: int) -> None:
        axis, start = number % 3, number // 3 % 4
        starts, shape, steps = [0] * 3, list(SHAPE), [1] * 3
        starts[axis], steps[axis] = start, step
        shape[axis] = 1 + number // 12 % max((SHAPE[axis] - start) // step, 1)
        self.parts.append(self.emit(graph.SliceOp(x, starts, shape, steps)))


# Operations on a value, with a number that selects operands, axes and offsets.
KINDS = {
    "attention": lambda b, x, n: b.attention(x, n),
    "weights": lambda b, x, n: b.emit(graph.MatmulOp(x, b.constant(SQUARE))),
    "softmax": lambda b, x, n: b.emit(graph.SoftmaxOp(x, axis=n % 3)),
    "norm": lambda b, x, n: b.emit(graph.LayerNormOp(x, b.constant(ROW), axis=2)),
    "transpose": lambda b, x, n: b.transposed(x),
    "heads": lambda b, x, n: b.reshaped(x, [4, 6, 2, 4]),
    "flat": lambda b, x, n: b.reshaped(x, [24, 8]),
    "mean": lambda b, x, n: b.less_mean(x, n % 3),
    "pad": lambda b, x, n: b.emit(graph.PadOp(x, low=[0, 1, 0], high=[0, -1, 0])),
    "concat": lambda b, x, n: b.emit(
        graph.SliceOp(b.emit(graph.ConcatOp([x, x], axis=1)), [0, 3, 0], SHAPE)
    ),
    "gather": lambda b, x, n: b.emit(graph.GatherOp(x, b.constant(ORDER), axis=1)),
    "add": lambda b, x, n: b.emit(graph.AddOp(x, b.values[n % len(b.values)])),
    "relu": lambda b, x, n: b.emit(graph.ReluOp(x)),
    "slice": lambda b, x, n: b.cut(x, n, 1),
    "strided": lambda b, x, n: b.cut(x, n, 2),
}


def build(choices: list[tuple[str, int, int]]) -> ModuleOp:
    """Return a graph from a list of (kind, operand, number), which returns only slices."""
    builder = Builder()
    for kind, which, number in choices:
        new = KINDS[kind](builder, builder.values[which % len(builder.values)], number)
        if new is not None:
            builder.values.append(new)
    results = builder.parts or builder.values[-1:]
    builder.block.add_op(func.ReturnOp(*results))
    type_ = FunctionType.from_lists([tensor(SHAPE, f32)], [value.type for value in results])
    return ModuleOp([func.FuncOp("main", type_, Region(builder.block))])


def elements(module: ModuleOp) -> int:
    """Number of result elements of all reductions and products."""
    ops = [op for op in module.walk() if isinstance(op, graph.GraphOp)]
    heavy = [op for op in ops if op.operands and op.fusion_kind is not graph.FusionKind.INJECTIVE]
    return sum(int(np.prod(op.shape)) for op in heavy)


steps = st.tuples(st.sampled_from([*KINDS]), st.integers(0, 255), st.integers(0, 255))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(steps, min_size=2, max_size=9))
def test_results_stay(choices):
    module = build([*choices, ("slice", len(choices), 0)])
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    expected, before = run_module(module, [x]), elements(module)
    HoistSlicesPass().apply(Context(), module)
    verify(module)
    assert elements(module) <= before
    # Sums of a slice may be added in another order.
    for ours, theirs in zip(run_module(module, [x]), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_layer_of_which_one_row_is_used_computes_one_row():
    kinds = ["norm", "weights", "heads", "transpose", "relu", "add"]
    layer = [(kind, place, place) for place, kind in enumerate(kinds)]
    module = build([*layer, ("slice", len(kinds), 1)])
    before = elements(module)
    HoistSlicesPass().apply(Context(), module)
    assert elements(module) * 6 == before


def test_axes_that_operands_follow():
    x, y, w = Block(arg_types=[tensor(s, f32) for s in [(2, 3, 4), (2, 4, 5), (4, 5)]]).args
    assert followed_axes(graph.MatmulOp(x, y), [0, 1, 2]) == [(0, 1, None), (0, None, 2)]
    assert followed_axes(graph.MatmulOp(x, w), [0, 1, 2]) == [(0, 1, None), (None, 2)]
    assert followed_axes(graph.SoftmaxOp(x, axis=1), [0, 1, 2]) == [(0, None, 2)]
    assert followed_axes(graph.ReshapeOp(x, [2, 3, 2, 2]), [0, 1, 2, 3]) == [(0, 1, None)]
    assert followed_axes(graph.PadOp(x, low=[0, 1, 0], high=[0, 0, 0]), [1, 2]) == [(None, None, 2)]
