"""Matrix products and Einsum, against onnxruntime."""

import numpy as np
import pytest

from models.checks import check_node, node_model, op_names
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import ImportModelError

SHAPES = [
    ((3, 4), (4, 5)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((4,), (4,)),
    ((2, 3, 4), (4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 3)),
]


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul(left: tuple, right: tuple, rng: np.random.Generator):
    check_node("MatMul", normal(rng, *left), normal(rng, *right))


@pytest.mark.parametrize("a", [0, 1])
@pytest.mark.parametrize("b", [0, 1])
@pytest.mark.parametrize("shape", [None, (), (5,), (3, 1), (3, 5)])
def test_gemm(a: int, b: int, shape: tuple | None, rng: np.random.Generator):
    left = normal(rng, *((4, 3) if a else (3, 4)))
    right = normal(rng, *((5, 4) if b else (4, 5)))
    c = None if shape is None else normal(rng, *shape)
    operands = [left, right] if c is None else [left, right, c]
    check_node("Gemm", *operands, transA=a, transB=b, alpha=0.5, beta=2.0)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("bhid,bhjd->bhij", [(1, 2, 3, 4), (1, 2, 5, 4)]),
        ("bthd->bhtd", [(2, 3, 4, 5)]),
        ("ij->i", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("...ij,jk->...ik", [(2, 5, 3, 4), (4, 3)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("ij,ij->ij", [(2, 3), (2, 3)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("ii", [(3, 3)]),
        ("iii->i", [(4, 4, 4)]),
        ("iji->ij", [(20, 5, 20)]),
        ("bii->bi", [(2, 1, 1)]),
        ("iij,jk->ik", [(3, 3, 4), (4, 5)]),
        ("i,i", [(4,), (4,)]),
    ],
)
def test_einsum(equation: str, shapes: list, rng: np.random.Generator):
    check_node("Einsum", *(normal(rng, *shape) for shape in shapes), equation=equation)


def test_a_diagonal_is_a_slice(rng: np.random.Generator):
    """The diagonal of a matrix is a slice of its flattened form."""
    model = node_model("Einsum", [rng.normal(size=(40, 40)).astype(np.float32)], equation="ii->i")
    assert op_names(import_model(model)) == ["reshape", "slice"]


@pytest.mark.parametrize("equation", ["ij,jk->il", "ijk->i", "i?->i", "ij", "...i...->i"])
def test_bad_equations(equation: str):
    arrays = [np.ones((2, 3), np.float32)] * (equation.count(",") + 1)
    if equation == "ij":
        arrays *= 2
    with pytest.raises(ImportModelError, match="Einsum"):
        import_model(node_model("Einsum", arrays, equation=equation))


def test_inner_extents_must_agree():
    arrays = [np.ones((2, 3), np.float32), np.ones((4, 5), np.float32)]
    with pytest.raises(ImportModelError, match=r"contracted extents differ.*\(at node\)"):
        import_model(node_model("MatMul", arrays))
