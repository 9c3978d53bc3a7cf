"""Compare an op's two definitions: numpy evaluation and tensor expression."""

from __future__ import annotations

import numpy as np

from tcopt.dialects.graph import ConstantOp, GraphOp, tensor
from tcopt.dialects.graph.core.types import (
    element_type,
    is_float,
    is_half,
    like,
    numpy_dtype,
    shape_of,
)
from tcopt.dialects.te import api as te
from tcopt.interpreters.te import run_func
from tcopt.support.ir.verify import verify


def value(array):
    """Return an SSA value with an array's type."""
    return ConstantOp.weight("v", like(np.asarray(array))).results[0]


def values(*shapes, element):
    """Return SSA values of the given shapes."""
    return [ConstantOp.weight("v", tensor(shape, element)).results[0] for shape in shapes]


def te_results(op: GraphOp, arrays):
    """Evaluate an op by its tensor expression."""
    inputs = [
        te.placeholder(shape_of(operand), element_type(operand), f"x{n}")
        for n, operand in enumerate(op.operands)
    ]
    output = op.tensor_expression(*inputs)
    assert output.shape == op.shape
    assert output.dtype == op.type.element_type
    function = te.func("f", inputs, [output])
    verify(function)
    return run_func(function, list(arrays))


def check(op: GraphOp, arrays, rtol=None, atol=None):
    """Assert that both definitions agree; return the numpy result."""
    op.verify()
    arrays = [np.asarray(array) for array in arrays]
    (expected,) = op.evaluate(*arrays)
    assert expected.shape == op.shape
    assert expected.dtype == numpy_dtype(op.type.element_type)
    if any(array.size == 0 for array in (expected, *arrays)):
        # Ops without operands are folded before lowering.
        return expected
    (actual,) = te_results(op, arrays)
    element = op.type.element_type
    if is_float(element):
        loose = is_half(element)
        np.testing.assert_allclose(
            np.asarray(actual, np.float64),
            np.asarray(expected, np.float64),
            rtol=rtol or (2e-2 if loose else 2e-5),
            atol=atol or (2e-2 if loose else 2e-5),
        )
    else:
        np.testing.assert_array_equal(actual, expected)
    return expected
