"""lower-graph-to-te: functions made from groups, shared functions, scalars, signedness."""

import numpy as np
import pytest
from xdsl.context import Context

from tcopt.dialects.graph import ConstantOp, WeightStore, attach_weights
from tcopt.dialects.te import CallOp, FuncOp
from tcopt.interpreters.te import run_module
from tcopt.passes.te.lower_graph_to_te import LowerGraphToTePass
from tcopt.support.errors import PassFailedError
from tcopt.support.ir.verify import verify
from tcopt.support.registries.registry import all_dialects
from tcopt.support.syntax.parsing import LocatedParser


@pytest.fixture
def context():
    context = Context()
    for name, factory in all_dialects().items():
        context.register_dialect(name, factory)
    return context


def lower(context, text, weights=None):
    module = LocatedParser(context, text, "test.mlir").parse_module()
    if weights is not None:
        store = WeightStore()
        store.update(weights)
        attach_weights(module, store)
    LowerGraphToTePass().apply(context, module)
    verify(module)
    return module


def functions(module):
    return {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}


def calls(module):
    return [op for op in module.walk() if isinstance(op, CallOp)]


DENSE = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
  %w = graph.constant @fc.weight : tensor<4x3xf32>
  %b = graph.constant @fc.bias : tensor<4xf32>
  %y = graph.group kind = complex_out_fusable {
    %0 = graph.matmul %x, %w {transpose_b} : tensor<2x4xf32>
    %1 = graph.add %0, %b : tensor<2x4xf32>
    %2 = graph.relu %1 : tensor<2x4xf32>
    graph.yield %2 : tensor<2x4xf32>
  } : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
"""


def test_a_group_becomes_a_function(context, rng):
    w = rng.standard_normal((4, 3), np.float32)
    b = rng.standard_normal(4, np.float32)
    x = rng.standard_normal((2, 3), np.float32)
    module = lower(context, DENSE, {"fc.weight": w, "fc.bias": b})
    (function,) = functions(module).values()
    assert function.sym_name.data == "fused_matmul_add_relu"
    assert [arg.name_hint for arg in function.body.block.args] == ["x", "weight", "bias"]
    (result,) = run_module(module, [x])
    np.testing.assert_allclose(result, np.maximum(x @ w.T + b, 0), rtol=1e-5)


def test_equal_groups_share_a_function(context):
    module = lower(
        context,
        """
        func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
          %0 = graph.add %x, %y : tensor<4xf32>
          %1 = graph.add %0, %x : tensor<4xf32>
          %2 = graph.add %1, %1 : tensor<4xf32>
          return %2 : tensor<4xf32>
        }
        """,
    )
    # The last one reads one tensor twice, so its structure differs.
    assert [call.callee.string_value() for call in calls(module)] == ["add", "add", "add_1"]
    assert list(functions(module)) == ["add", "add_1"]


def test_uniform_constants_become_numbers(context):
    module = lower(
        context,
        """
        func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
          %c = graph.constant dense<2.0> : tensor<2x2xf32>
          %s = graph.constant @scale : tensor<1xf32>
          %0 = graph.mul %x, %c : tensor<2x2xf32>
          %1 = graph.add %0, %s : tensor<2x2xf32>
          return %1 : tensor<2x2xf32>
        }
        """,
        {"scale": np.array([0.5], np.float32)},
    )
    assert not any(isinstance(op, ConstantOp) for op in module.walk())
    assert [len(call.arguments) for call in calls(module)] == [1, 1]
    (result,) = run_module(module, [np.ones((2, 2), np.float32)])
    assert result.tolist() == [[2.5, 2.5]] * 2


def test_uniform_factors_of_a_sum_stay_factors(context):
    module = lower(
        context,
        """
        func.func @main(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
          %w = graph.constant dense<0.0> : tensor<3x4xf32>
          %0 = graph.matmul %x, %w : tensor<2x4xf32>
          return %0 : tensor<2x4xf32>
        }
        """,
    )
    assert [len(call.arguments) for call in calls(module)] == [2]
    (result,) = run_module(module, [np.ones((2, 3), np.float32)])
    assert result.tolist() == [[0.0] * 4] * 2


def test_views_and_tables_stay_in_the_host_function(context):
    module = lower(
        context,
        """
        func.func @main(%x: tensor<2x2xf32>) -> tensor<4xf32> {
          %c = graph.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
          %0 = graph.reshape %x : tensor<4xf32>
          %1 = graph.mul %0, %c : tensor<4xf32>
          return %1 : tensor<4xf32>
        }
        """,
    )
    main = list(module.ops)[-1]
    assert [op.name for op in main.body.block.ops] == [
        "graph.constant",
        "graph.reshape",
        "te.call",
        "func.return",
    ]
    (result,) = run_module(module, [np.ones((2, 2), np.float32)])
    assert result.tolist() == [1, 2, 3, 4]


def test_unsigned_tensors_are_signless_inside(context):
    module = lower(
        context,
        """
        func.func @main(%x: tensor<3xui8>, %y: tensor<3xui8>) -> tensor<3xui8> {
          %0 = graph.max %x, %y : tensor<3xui8>
          return %0 : tensor<3xui8>
        }
        """,
    )
    assert "ui8" not in str(next(iter(functions(module).values())))
    x, y = np.array([1, 200, 3], np.uint8), np.array([2, 100, 130], np.uint8)
    (result,) = run_module(module, [x, y])
    assert result.dtype == np.uint8
    assert result.tolist() == [2, 200, 130]


def test_stages_and_calls_keep_the_location_of_their_op(context):
    module = lower(context, DENSE)
    (function,) = functions(module).values()
    lines = [stage.location.line.data for stage in function.stages]
    assert lines == sorted(lines)
    assert len(set(lines)) == 3
    assert calls(module)[0].location.line.data == 5


def test_an_op_without_a_definition_is_named(context, monkeypatch):
    from tcopt.dialects.graph import ReluOp

    def undefined(self, *inputs):
        raise ValueError("no such thing")

    monkeypatch.setattr(ReluOp, "tensor_expression", undefined)
    with pytest.raises(PassFailedError, match=r"'graph.relu': .*no such thing.*test.mlir:8"):
        lower(context, DENSE)
