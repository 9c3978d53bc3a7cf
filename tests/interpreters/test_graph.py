"""The interpreter of graph ops."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.test import Test
from xdsl.parser import Parser

from tcopt.dialects.graph import DIALECT, WeightStore, attach_weights
from tcopt.interpreters.graph import run_module
from tcopt.support.errors import InputError, UnsupportedError

TEXT = """
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2xf32>) {
  %w = graph.constant @w : tensor<3xf32>
  %0 = graph.add %x, %y : tensor<2x3xf32>
  %1 = graph.group kind = reduction {
    %2 = graph.mul %0, %w : tensor<2x3xf32>
    %3 = graph.reduce %2 {kind = sum, axes = [1]} : tensor<2xf32>
    graph.yield %3
  } : tensor<2xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<2xf32>
}
"""


def parse(text):
    context = Context()
    for dialect in (Builtin, func.Func, DIALECT, Test):
        context.load_dialect(dialect)
    return Parser(context, text).parse_module()


@pytest.fixture
def module():
    parsed = parse(TEXT)
    store = WeightStore()
    store["w"] = np.array([1, 2, 3], np.float32)
    attach_weights(parsed, store)
    return parsed


X, Y = np.ones((2, 3), np.float32), np.arange(3, dtype=np.float32)


def test_inputs_by_place_and_by_name(module):
    total, sums = run_module(module, [X, Y])
    np.testing.assert_array_equal(total, X + Y)
    np.testing.assert_array_equal(sums, (X + Y) @ [1, 2, 3])
    by_name = run_module(module, {"y": Y, "x": X})
    np.testing.assert_array_equal(by_name[1], sums)


def test_an_observer_sees_every_result(module):
    seen = []
    run_module(module, [X, Y], observe=lambda op, results: seen.append(op.name))
    assert seen == [
        "graph.constant", "graph.add", "graph.mul", "graph.reduce", "graph.group"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "inputs, message",
    [([X], "expected 2 inputs, got 1"), ([X, X], "expected an input of shape"),
     ({"x": X}, "no input for y")],
)  # fmt: skip
def test_inputs_that_do_not_fit(module, inputs, message):
    with pytest.raises(InputError, match=message):
        run_module(module, inputs)


def test_missing_weight_and_foreign_op():
    with pytest.raises(InputError, match="@w is not in"):
        run_module(parse(TEXT), [X, Y])
    with pytest.raises(UnsupportedError, match=r"test\.op"):
        run_module(parse('func.func @main() { "test.op"() : () -> () return }'), [])
    with pytest.raises(InputError, match="no function"):
        run_module(parse("builtin.module {}"), [])
