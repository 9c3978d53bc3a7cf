"""Networks whose layers round operands to bf16, against onnxruntime in f32."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import bf16, f32, i32
from xdsl.utils.exceptions import VerifyException

import tcopt
from models import convolutional, transformers
from models.checks import run_reference
from models.light_models import random_inputs
from models.network import Network
from tcopt.backends.llvm.machine.host import default_target
from tcopt.compiler import pipeline
from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import tensor
from tcopt.dialects.intrinsics import added_at_once
from tcopt.support.errors import UnsupportedError
from tcopt.support.pipelines.phases import pipeline_text

# A bf16 has 8 significant bits: rounding moves an operand by up to 2^-9 of it, a product by 2^-8.
# Errors of a sum's terms cancel, those of several layers add up: their root mean square is at most
# that of rounding the range once, and the largest of about ten thousand is 8 times that.
TOLERANCE = 2.0**-9
LARGEST = 8 * TOLERANCE

HAS_DOT = added_at_once(default_target().capabilities, (bf16, bf16), f32) > 1
"""Whether this machine has bf16 dot products."""

NETWORKS = {
    "residual_net": convolutional.residual_net,
    "unet": convolutional.unet,
    "bert_block": transformers.bert_block,
}


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_in_bf16(name: str) -> None:
    model = NETWORKS[name]()
    compiled = tcopt.compile(model, precision="bf16")
    feeds = random_inputs(model, 0)
    for ours, theirs in zip(compiled.run(feeds), run_reference(model, feeds), strict=True):
        assert ours.dtype == np.float32
        errors = (ours - theirs) / np.ptp(theirs)
        # A much smaller error would mean that nothing was rounded.
        assert 2.0**-14 < np.sqrt((errors**2).mean()) <= TOLERANCE
        assert np.abs(errors).max() <= LARGEST


@pytest.mark.parametrize("target", ["cpu", "cpu:haswell", "cpu:x86-64"])
@pytest.mark.parametrize("columns", [64, 5])
def test_sums_of_rounded_operands_are_not_rounded(target: str, columns: int) -> None:
    """With operands rounded beforehand, numpy in f32 gives the same results.

    Products of few columns have no dot-product form, and are not rounded on CPUs with dot products.
    """
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((48, columns), np.float32)
    net = Network("dense")
    x = net.input("x", [7, 48])
    y = net.add("MatMul", x, net.weight(weights))
    model = net.model(**{y: [7, columns]})
    data = rng.standard_normal((7, 48), np.float32)
    (result,) = tcopt.compile(model, target, precision="bf16").run({"x": data})
    stays = target == "cpu" and HAS_DOT and columns == 5
    dtype = np.float64 if stays else ml_dtypes.bfloat16
    rounded = [a.astype(dtype).astype(np.float64) for a in (data, weights)]
    np.testing.assert_allclose(result, rounded[0] @ rounded[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 40, 48, 64), (3, 33, 47, 35)])
def test_two_computed_matrices_are_rounded_where_dot_products_are(
    shape: tuple[int, int, int, int],
) -> None:
    """A product of two computed matrices is rounded, but not on CPUs without dot products."""
    batch, rows, depth, columns = shape
    net = Network("attention")
    a, b = net.input("a", [batch, rows, depth]), net.input("b", [batch, depth, columns])
    model = net.model(**{net.add("MatMul", a, b): [batch, rows, columns]})
    rng = np.random.default_rng(1)
    feeds = {
        "a": rng.standard_normal((batch, rows, depth), np.float32),
        "b": rng.standard_normal((batch, depth, columns), np.float32),
    }
    (result,) = tcopt.compile(model, precision="bf16").run(feeds)
    dtype = ml_dtypes.bfloat16 if HAS_DOT else np.float64
    rounded = [x.astype(dtype).astype(np.float64) for x in feeds.values()]
    np.testing.assert_allclose(result, rounded[0] @ rounded[1], rtol=1e-5, atol=1e-5)


@pytest.mark.nightly
def test_weights_take_half_the_memory() -> None:
    model = transformers.bert_block()
    single, half = (tcopt.compile(model, precision=p).program for p in ("f32", "bf16"))
    assert half.weights.nbytes < 0.6 * single.weights.nbytes


def test_pipeline_has_the_pass_only_if_asked() -> None:
    texts = {p: pipeline_text(pipeline("cpu", precision=p)) for p in ("f32", "bf16")}
    assert "lower-precision" not in texts["f32"]
    order = r"winograd\{precision=bf16\},.*lower-precision\{to=bf16\},.*pack-dots"
    assert re.search(order, texts["bf16"])
    with pytest.raises(UnsupportedError, match="there is no precision 'f8'"):
        pipeline("cpu", precision="f8")


@pytest.mark.parametrize(("operands", "result"), [(bf16, i32), (f32, bf16)])
def test_sums_have_the_operands_type_or_f32(operands, result) -> None:
    source = test.TestOp(result_types=[tensor([4, 4], operands)]).results[0]
    with pytest.raises(VerifyException, match="cannot be summed in"):
        graph.MatmulOp(source, source, result_element=result)
