"""Matrix products: with a constant right operand, of two variables, and matrix-vector products."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from onnx import ModelProto, TensorProto

from case import Case
from tcopt.frontends.onnx.building.network import Network

# Rows, reduction and columns of products with a constant.
_DENSE = ((1024, 1024, 1024), (128, 768, 3072), (128, 3072, 768), (128, 768, 768))
_VECTOR = ((4096, 4096), (1024, 1000))


def dense(rows: int, terms: int, columns: int) -> ModelProto:
    """Product of rows by a constant matrix."""
    net = Network("dense")
    x = net.input("x", [rows, terms])
    return net.model(
        **{net.add("MatMul", x, net.normal([terms, columns], terms**-0.5)): [rows, columns]}
    )


def _product(left: Sequence[int], right: Sequence[int], transposed: bool) -> ModelProto:
    """A batched product of two inputs; the right one is transposed by a node before it."""
    net = Network("product")
    x, y = net.input("x", left), net.input("y", right)
    columns = right[-1]
    if transposed:
        y = net.add("Transpose", y, perm=[0, 2, 1])
        columns = right[-2]
    return net.model(**{net.add("MatMul", x, y): [*left[:-1], columns]})


def _integers(batch: int, rows: int, terms: int, columns: int) -> ModelProto:
    """8-bit products of two inputs with zero points."""
    net = Network("integers")
    x = net.input("x", [batch, rows, terms], TensorProto.UINT8)
    y = net.input("y", [batch, terms, columns], TensorProto.INT8)
    zero = net.input("zero", [], TensorProto.UINT8)
    result = net.add("MatMulInteger", x, y, zero)
    model = net.model(**{result: [batch, rows, columns]})
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    return model


CASES = [
    *(
        Case(f"matmul_{m}x{k}x{n}", partial(dense, m, k, n), f"{m}x{k} by a constant {k}x{n}")
        for m, k, n in _DENSE
    ),
    Case("matmul_197x768x1", partial(dense, 197, 768, 1), "197x768 by a constant column"),
    Case(
        "attention_scores",
        partial(_product, [12, 128, 64], [12, 128, 64], True),
        "q k^T of 12 heads, 128 tokens of 64",
    ),
    Case(
        "attention_values",
        partial(_product, [12, 128, 128], [12, 128, 64], False),
        "scores by values of 12 heads, 128 tokens of 64",
    ),
    Case(
        "integer_scores",
        partial(_integers, 12, 128, 64, 128),
        "products of bytes of 12 heads, 128 tokens of 64",
    ),
    Case(
        "attention_scores_197",
        partial(_product, [6, 197, 64], [6, 197, 64], True),
        "q k^T of 6 heads, 197 tokens of 64",
    ),
    *(
        Case(f"gemv_{k}x{n}", partial(dense, 1, k, n), f"a vector by a constant {k}x{n}")
        for k, n in _VECTOR
    ),
]
