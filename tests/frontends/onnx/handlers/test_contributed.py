"""onnxruntime operators that exporters write, against onnxruntime if it has them on CPUs and
against numpy otherwise; and experimental ones of ONNX's first opsets."""

from __future__ import annotations

import numpy as np
import pytest

import tcopt
from models.checks import assert_close, check_node, node_model, run_imported, run_reference
from tcopt.support.errors import ImportModelError, UnsupportedError

DOMAIN = "com.microsoft"
F = np.float32


def ramp(*shape: int, scale: float = 0.37) -> np.ndarray:
    """Deterministic values in [-1, 1] without a pattern."""
    return np.sin(np.arange(np.prod(shape, dtype=int), dtype=F) ** 2 * F(scale)).reshape(shape)


def whole(*values: int, dtype=np.int64) -> np.ndarray:
    return np.array(values, dtype)


BOXES = np.array([[0.1, 0.2, 0.8, 0.9], [-0.2, 0, 1.3, 0.5], [0.7, 0.9, 0.1, 0.2]], F)

NODES = {
    "Trilu": ([ramp(2, 3, 4)], {"upper": 0}),
    "Trilu of a diagonal": ([ramp(3, 3), whole(1).reshape(())], {"constants": (1,)}),
    "Inverse": ([ramp(2, 3, 3) + 3 * np.eye(3, dtype=F)], {}),
    "GridSample": ([ramp(1, 2, 4, 5), ramp(1, 3, 3, 2)], {"padding_mode": "border"}),
    "CDist": ([ramp(3, 4), ramp(5, 4, scale=0.2)], {"metric": "euclidean"}),
    "CDist of squares": ([ramp(3, 4), ramp(5, 4, scale=0.2)], {"metric": "sqeuclidean"}),
    "ExpandDims": ([ramp(2, 3), whole(-1, dtype=np.int32).reshape(())], {"constants": (1,)}),
    "NhwcMaxPool": (
        [(ramp(1, 5, 5, 3) * 100).astype(np.int8)],
        {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 1, 1]},
    ),
    "BiasDropout": ([ramp(2, 3), ramp(3), ramp(2, 3)], {}),
    "UnfoldTensor": ([ramp(2, 7)], {"size": 3, "step": 2}),
    "UnfoldTensor of an outer axis": ([ramp(5, 2)], {"size": 2, "dim": 0}),
    "CropAndResize": (
        [ramp(2, 3, 5, 6), BOXES, whole(0, 1, 1, dtype=np.int32), whole(3, 4, dtype=np.int32)],
        {"constants": (3,), "extrapolation_value": 0.5},
    ),
    "CropAndResize to points": (
        [ramp(2, 3, 5, 6), BOXES, whole(0, 1, 1, dtype=np.int32), whole(1, 1, dtype=np.int32)],
        {"constants": (3,)},
    ),
    "Range": ([np.array(1, F), np.array(3, F)], {"constants": (0, 1)}),
    "Pad": ([ramp(2, 3), whole(1, 0, 0, 2), np.array([0.5], F)], {"constants": (1,)}),
    "GatherND": ([ramp(2, 3), whole(1, 2, 0, 0).reshape(2, 2)], {}),
}
CPU_LACKS = {"BiasDropout"}


@pytest.mark.parametrize("label", NODES)
def test_against_onnxruntime(label: str):
    inputs, options = NODES[label]
    op_type = label.split()[0]
    if op_type not in CPU_LACKS:
        # Interpolation in another order of operations.
        check_node(op_type, *inputs, domain=DOMAIN, tolerance=1e-4, **options)
        return
    model = node_model(op_type, inputs, domain=DOMAIN, **options)
    (total,) = run_imported(model, {f"x{i}": x for i, x in enumerate(inputs)})
    assert_close(total, inputs[0] + inputs[1] + inputs[2], 1e-6)


def test_unique_in_order():
    x = np.array([2, 1, 2, 3, 1], F)
    model = node_model("Unique", [x], domain=DOMAIN, outputs=3)
    for ours, theirs in zip(
        tcopt.compile(model).run({"x0": x}), run_reference(model, {"x0": x}), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_inverse_by_code():
    """Rows are swapped if a pivot is zero; a singular matrix does not affect others."""
    matrices = np.stack([np.array([[0, 2], [3, 1]], F), np.ones((2, 2), F), 2 * np.eye(2, dtype=F)])
    model = node_model("Inverse", [matrices], domain=DOMAIN)
    (result,) = tcopt.compile(model).run({"x0": matrices})
    np.testing.assert_allclose(result[[0, 2]], np.linalg.inv(matrices[[0, 2]]), rtol=1e-6)
    assert not np.isfinite(result[1]).all()


@pytest.mark.parametrize("length", [7, 8])
def test_real_transforms(length: int):
    """The inverse assumes an even length, as torch does by default."""
    x = ramp(2, length)
    spectrum = np.fft.rfft(x)
    pairs = np.stack([spectrum.real, spectrum.imag], -1).astype(F)
    model = node_model("Rfft", [x], domain=DOMAIN)
    assert_close(run_imported(model, {"x0": x})[0], pairs, 1e-5)
    model = node_model("Irfft", [pairs], domain=DOMAIN, signal_ndim=1)
    assert_close(run_imported(model, {"x0": pairs})[0], np.fft.irfft(spectrum).astype(F), 1e-5)


EXPERIMENTAL = {
    "Affine": ([ramp(2, 3)], {"alpha": 2.0, "beta": 0.5}),
    "Crop": ([ramp(1, 2, 5, 6)], {"border": [1, 0, 2, 1]}),
    "Crop to a size": ([ramp(1, 2, 5, 6)], {"border": [1, 2, 0, 0], "scale": [2, 3]}),
    "ImageScaler": ([ramp(1, 3, 2, 2)], {"scale": 0.5, "bias": [0.1, 0.2, 0.3]}),
    "ParametricSoftplus": ([ramp(2, 3)], {"alpha": 0.5, "beta": 2.0}),
    "ScaledTanh": ([ramp(2, 3)], {"alpha": 0.5, "beta": 2.0}),
    "ThresholdedRelu": ([ramp(2, 3)], {"alpha": 0.2}),
}


@pytest.mark.parametrize("label", EXPERIMENTAL)
def test_experimental(label: str):
    inputs, options = EXPERIMENTAL[label]
    check_node(label.split()[0], *inputs, opset=7, **options)


WORDS = ["the quick  brown fox", "lazy, dog", "", "é a"]


@pytest.mark.parametrize(
    "options",
    [
        {"tokenexp": "[a-zA-Z0-9_]+"},
        {"tokenexp": "[a-z]+", "mincharnum": 4},
        {"tokenexp": "q|qu|quick"},
        {"separators": [" "]},
        {"separators": [",", " +"], "mark": 1},
        {"separators": [" "], "mincharnum": 4},
        {"separators": [""]},
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_tokenizer(options: dict, shape: tuple[int, ...]):
    settings = {"mark": 0, "mincharnum": 1, "pad_value": "#", **options}
    x = np.array(WORDS, object).reshape(shape)
    model = node_model("Tokenizer", [x], domain=DOMAIN, **settings)
    (theirs,) = run_reference(model, {"x0": x})
    (ours,) = tcopt.compile(model).run({"x0": x})
    assert ours.tolist() == theirs.tolist()


def test_refusals():
    x = np.array(["a"], object)
    settings = {"mark": 0, "mincharnum": 1, "pad_value": "#", "domain": DOMAIN}
    for options in ({"tokenexp": "("}, {}, {"tokenexp": "a", "separators": ["b"]}):
        with pytest.raises(ImportModelError, match="Tokenizer"):
            run_imported(node_model("Tokenizer", [x], **settings, **options), {"x0": x})
    model = node_model("Rfft", [ramp(2, 4)], domain=DOMAIN, normalized=1)
    with pytest.raises(UnsupportedError, match="Rfft"):
        run_imported(model, {"x0": ramp(2, 4)})
