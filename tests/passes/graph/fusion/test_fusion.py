"""Fusion on random graphs: results are unchanged, and every operator is in a group."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, NameLoc, StringAttr, UnknownLoc, f32
from xdsl.ir import Block, Region

from running.examples import examples
from tcopt.dialects import graph
from tcopt.dialects.graph import ConstantOp, GraphOp, GroupOp, tensor
from tcopt.interpreters.graph import run_module
from tcopt.passes.graph.folding.fold_scale import FoldScalePass
from tcopt.passes.graph.folding.fold_shapes import FoldShapesPass
from tcopt.passes.graph.fusion.fuse_ops import FuseOpsPass
from tcopt.support.ir.verify import verify

TYPE = tensor((1, 2, 3, 3), f32)
KINDS = ["conv", "relu", "add", "mul", "softmax", "reshape", "transpose", "scale", "mean"]


def build(choices):
    """Return a module from a list of (kind, index of operand, index of second operand)."""
    block = Block(arg_types=[TYPE])
    values = [block.args[0]]

    def emit(op):
        block.add_op(op)
        return op.results[0]

    weights = emit(ConstantOp.literal(np.linspace(-1, 1, 4, dtype="f4").reshape(2, 2, 1, 1)))
    column = emit(ConstantOp.literal(np.array([0.5, 2], "f4").reshape(2, 1, 1)))
    for kind, first, second in choices:
        a, b = values[first % len(values)], values[second % len(values)]
        match kind:
            case "conv":
                new = emit(graph.ConvOp(a, weights))
            case "relu":
                new = emit(graph.ReluOp(a))
            case "add":
                new = emit(graph.AddOp(a, b))
            case "mul":
                new = emit(graph.MulOp(a, b))
            case "scale":
                new = emit(graph.MulOp(emit(graph.AddOp(a, column)), column))
            case "softmax":
                new = emit(graph.SoftmaxOp(a, axis=1))
            case "reshape":
                new = emit(graph.ReshapeOp(emit(graph.ReshapeOp(a, [2, 9])), TYPE.get_shape()))
            case "transpose":
                new = emit(graph.TransposeOp(a, [0, 1, 3, 2]))
            case _:
                mean = emit(graph.ReduceOp(a, kind="mean", axes=[2, 3], keepdims=True))
                new = emit(graph.AddOp(mean, b))
        values.append(new)
    results = [values[-1], values[len(values) // 2]]
    emit_return = func.ReturnOp(*results)
    block.add_op(emit_return)
    signature = FunctionType.from_lists([TYPE], [value.type for value in results])
    return ModuleOp([func.FuncOp("main", signature, Region(block))])


choice = st.tuples(st.sampled_from(KINDS), st.integers(0, 9), st.integers(0, 9))


@settings(max_examples=examples(60))
@given(st.lists(choice, min_size=1, max_size=12), st.sampled_from([1, 3, 64]))
def test_random_graphs(choices, max_ops):
    module = build(choices)
    x = np.random.default_rng(0).standard_normal(TYPE.get_shape()).astype(np.float32)
    before = run_module(module, [x])
    for step in (FoldShapesPass(), FoldScalePass(), FuseOpsPass(max_ops)):
        step.apply(Context(), module)
        verify(module)
        after = run_module(module, [x])
        for a, b in zip(after, before, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())
    (main,) = module.ops
    for op in main.body.block.ops:
        assert isinstance(op, GroupOp | ConstantOp | func.ReturnOp) or op.is_view
        if isinstance(op, GroupOp):
            inner = [o for o in op.body.block.ops if isinstance(o, GraphOp)]
            assert 1 <= len(inner) <= max_ops
            assert sum(o.fusion_kind is not graph.FusionKind.INJECTIVE for o in inner) <= 1


def test_a_group_is_named_after_its_heaviest_op():
    module = build([("conv", 0, 0), ("relu", 1, 0), ("relu", 2, 0)])
    (main,) = module.ops
    for op in main.body.block.ops:
        op.location = NameLoc(StringAttr(op.name), UnknownLoc())
    main.body.block.last_op.operands = [main.body.block.last_op.operands[0]] * 2
    FuseOpsPass().apply(Context(), module)
    (group,) = [op for op in main.body.block.ops if isinstance(op, GroupOp)]
    assert group.location.desc.data == "graph.conv"
