"""Fourier transforms against numpy; the mel weight matrix against onnxruntime."""

import numpy as np
import pytest

from models.checks import check_node, node_model, run_imported
from tcopt.frontends.onnx.handlers import long_transforms, spectral
from tcopt.support.errors import UnsupportedError

RNG = np.random.default_rng(8)


def complex_of(pairs):
    return pairs[..., 0] + 1j * pairs[..., 1]


def pairs_of(signal):
    return np.stack([signal.real, signal.imag], -1)


def transformed(x, length=None, axis=-2, **attributes):
    operands = [x, None if length is None else np.array(length), np.array(axis)]
    constants = [2] if length is None else [1, 2]
    model = node_model("DFT", operands, opset=20, constants=constants, **attributes)
    return run_imported(model, {"x0": x})[0]


@pytest.mark.parametrize("length", [None, 5, 12])
@pytest.mark.parametrize("axis", [1, 2])
def test_dft(length, axis):
    x = RNG.standard_normal((2, 8, 9, 2)).astype(np.float32)
    forward = np.fft.fft(complex_of(x), length, axis)
    np.testing.assert_allclose(complex_of(transformed(x, length, axis)), forward, atol=2e-5)
    backward = np.fft.ifft(complex_of(x), length, axis)
    result = complex_of(transformed(x, length, axis, inverse=1))
    np.testing.assert_allclose(result, backward, atol=2e-5)


@pytest.mark.parametrize("length", [8, 9])
def test_one_sided_transforms_undo_each_other(length):
    x = RNG.standard_normal((3, length, 1)).astype(np.float32)
    spectrum = transformed(x, onesided=1)
    np.testing.assert_allclose(complex_of(spectrum), np.fft.rfft(x[..., 0]), atol=2e-5)
    back = transformed(spectrum, length, onesided=1, inverse=1)
    np.testing.assert_allclose(back, x, atol=2e-6)


@pytest.fixture
def short_steps(monkeypatch):
    """Lengths above 8 are computed in stages of radix up to 5."""
    monkeypatch.setattr(spectral, "_PRODUCT_LIMIT", 8)
    monkeypatch.setattr(long_transforms, "_STEP_LIMIT", 5)


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("length", [16, 24, 100, 11, 26])
def test_long_transforms(length, short_steps):
    """Lengths with small factors, primes, and lengths with a large prime factor."""
    for given in (length, length - 3, length + 2):
        x = RNG.standard_normal((2, given, 2)).astype(np.float32)
        forward = np.fft.fft(complex_of(x), length, 1)
        found = transformed(x, length)
        np.testing.assert_allclose(complex_of(found), forward, atol=2e-5)
        backward = np.fft.ifft(complex_of(x), length, 1)
        found = transformed(x, length, inverse=1)
        np.testing.assert_allclose(complex_of(found), backward, atol=2e-6)
        real = x[..., :1]
        spectrum = transformed(real, length, onesided=1)
        expected = np.fft.rfft(real[..., 0], length)
        np.testing.assert_allclose(complex_of(spectrum), expected, atol=2e-5)
        back = transformed(spectrum, length, onesided=1, inverse=1)
        np.testing.assert_allclose(back[..., 0], np.fft.irfft(expected, length), atol=2e-6)


def test_a_length_above_the_limit_is_named(monkeypatch):
    monkeypatch.setattr(spectral, "_LENGTH_LIMIT", 8)
    with pytest.raises(UnsupportedError, match="length 9"):
        transformed(np.zeros((1, 9, 1), np.float32))


@pytest.mark.parametrize("onesided", [0, 1])
def test_stft(onesided):
    x = RNG.standard_normal((2, 40, 1)).astype(np.float32)
    window = np.hanning(16).astype(np.float32)
    operands = [x, np.array(8), window]
    check_node("STFT", *operands, opset=17, constants=[1], onesided=onesided)


def test_mel_bands():
    operands = [np.array(v) for v in (8, 64, 8000)]
    edges = [np.array(v, np.float32) for v in (0.0, 4000.0)]
    check_node("MelWeightMatrix", *operands, *edges, opset=17, constants=range(5))
