"""lower-te-to-loop: the host function's buffers, results, copies and views."""

import numpy as np
import pytest
from xdsl.context import Context

from tcopt.dialects.graph import weights_of
from tcopt.passes.loop.bufferize.lower_te_to_loop import LowerTeToLoopPass
from tcopt.support.errors import PassFailedError
from tcopt.support.ir.verify import verify
from tcopt.support.registries.registry import all_dialects
from tcopt.support.syntax.parsing import LocatedParser
from tcopt.tools.execution.loop_executor import run_module

DOUBLE = """
te.func @double(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = te.compute "double" [%i = 4] : tensor<4xf32> {
    %0 = te.read %x[%i] : tensor<4xf32>
    %1 = arith.addf %0, %0 : f32
    te.yield %1 : f32
  }
  te.return %y : tensor<4xf32>
}
"""

X = np.array([1, 2, 3, 4], np.float32)


def lower(text):
    context = Context()
    for name, factory in all_dialects().items():
        context.register_dialect(name, factory)
    module = LocatedParser(context, text).parse_module()
    LowerTeToLoopPass().apply(context, module)
    verify(module)
    return module


def run(module, inputs, *outputs):
    buffers = [*inputs, *(np.full(shape, np.nan, np.float32) for shape in outputs)]
    run_module(module, buffers)
    return [buffer.tolist() for buffer in buffers[len(inputs) :]]


def host_ops(module):
    return [op.name for op in list(module.ops)[-1].body.block.ops]


def test_a_call_writes_a_result_in_place():
    module = lower(
        DOUBLE
        + """
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = te.call @double(%x) : (tensor<4xf32>) -> tensor<4xf32>
          %1 = te.call @double(%0) : (tensor<4xf32>) -> tensor<4xf32>
          return %1 : tensor<4xf32>
        }
        """
    )
    assert host_ops(module) == ["memref.alloc", "loop.call", "loop.call", "func.return"]
    assert run(module, [X], 4) == [[4, 8, 12, 16]]


def test_a_call_writes_through_a_view():
    module = lower(
        DOUBLE
        + """
        func.func @main(%x: tensor<2x2xf32>) -> tensor<1x4xf32> {
          %0 = graph.reshape %x : tensor<4xf32>
          %1 = te.call @double(%0) : (tensor<4xf32>) -> tensor<4xf32>
          %2 = graph.reshape %1 : tensor<1x4xf32>
          return %2 : tensor<1x4xf32>
        }
        """
    )
    views = ["memref.reinterpret_cast"] * 2
    assert host_ops(module) == [*views, "loop.call", "func.return"]
    assert run(module, [X.reshape(2, 2)], (1, 4)) == [[[2, 4, 6, 8]]]


def test_what_has_no_buffer_of_its_own_is_copied():
    """A result returned twice, a view of one, an argument, a weight."""
    module = lower(
        DOUBLE
        + """
        func.func @main(%x: tensor<4xf32>)
            -> (tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>) {
          %0 = te.call @double(%x) : (tensor<4xf32>) -> tensor<4xf32>
          %1 = graph.reshape %0 : tensor<2x2xf32>
          %2 = graph.constant dense<[4.0, 3.0, 2.0, 1.0]> : tensor<4xf32>
          return %0, %0, %1, %x, %2
            : tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>
        }
        """
    )
    doubled = [2, 4, 6, 8]
    assert run(module, [X], 4, 4, (2, 2), 4, 4) == [
        doubled,
        doubled,
        [[2, 4], [6, 8]],
        X.tolist(),
        [4, 3, 2, 1],
    ]


def test_a_literal_moves_to_the_weight_store():
    module = lower(
        DOUBLE
        + """
        func.func @main() -> tensor<4xf32> {
          %0 = graph.constant dense<[4.0, 3.0, 2.0, 1.0]> : tensor<4xf32>
          %1 = te.call @double(%0) : (tensor<4xf32>) -> tensor<4xf32>
          return %1 : tensor<4xf32>
        }
        """
    )
    assert weights_of(module)["literal"].tolist() == [4, 3, 2, 1]
    assert run(module, [], 4) == [[8, 6, 4, 2]]


def test_a_function_that_returns_its_argument_copies():
    module = lower(
        """
        te.func @same(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
          te.return %x, %x : tensor<4xf32>, tensor<4xf32>
        }
        """
    )
    assert run(module, [X], 4, 4) == [X.tolist(), X.tolist()]


def test_a_reduction_without_terms_stores_its_identity():
    module = lower(
        """
        te.func @none(%x: tensor<2x0xf32>) -> tensor<2xf32> {
          %y = te.compute "sum" [%i = 2] reduce [%k = 0] sum : tensor<2xf32> {
            %0 = te.read %x[%i, %k] : tensor<2x0xf32>
            te.yield %0 : f32
          }
          te.return %y : tensor<2xf32>
        }
        """
    )
    assert run(module, [np.zeros((2, 0), np.float32)], 2) == [[0, 0]]


def test_graph_ops_must_be_lowered_first():
    with pytest.raises(PassFailedError, match=r"graph.relu.*run lower-graph-to-te first"):
        lower(
            """
            func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
              %0 = graph.relu %x : tensor<4xf32>
              return %0 : tensor<4xf32>
            }
            """
        )
