"""ImageDecoder, against Pillow."""

from __future__ import annotations

import builtins
from io import BytesIO

import numpy as np
import onnx.parser
import pytest

import tcopt
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import InputError, UnsupportedError
from tcopt.support.host.host_functions.registry import Form, find_host_function


def model_of(pixels: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        g (uint8[n] data) => (uint8[h, w, c] y) {{
        y = ImageDecoder<pixel_format = "{pixels}">(data) }}"""
    )


def encoded(pixels: np.ndarray) -> np.ndarray:
    image = pytest.importorskip("PIL.Image")
    stream = BytesIO()
    image.fromarray(pixels).save(stream, "png")
    return np.frombuffer(stream.getvalue(), np.uint8)


def test_formats_and_sizes(rng):
    compiled = {name: tcopt.compile(model_of(name)) for name in ("RGB", "BGR", "Grayscale")}
    for shape in ((5, 7, 3), (8, 4, 3)):
        pixels = rng.integers(0, 256, shape).astype(np.uint8)
        results = {n: model.run({"data": encoded(pixels)})[0] for n, model in compiled.items()}
        np.testing.assert_array_equal(results["RGB"], pixels)
        np.testing.assert_array_equal(results["BGR"], pixels[:, :, ::-1])
        luma = pixels @ np.array([0.299, 0.587, 0.114])
        np.testing.assert_allclose(results["Grayscale"][:, :, 0], luma, atol=1)


def test_what_is_no_image(rng):
    model, data = tcopt.compile(model_of("RGB")), encoded(np.zeros((5, 7, 3), np.uint8))
    for damaged in (data[:20], data[: len(data) - 30], np.zeros(100, np.uint8)):
        with pytest.raises(InputError, match="not an image that can be decoded"):
            model.run({"data": damaged})
    assert model.run({"data": data})[0].shape == (5, 7, 3)


def in_format(name: str) -> np.ndarray:
    image = pytest.importorskip("PIL.Image")
    stream = BytesIO()
    image.new("RGB", (8, 4), (255, 0, 0)).save(stream, name)
    return np.frombuffer(stream.getvalue(), np.uint8)


@pytest.mark.parametrize("name", ["bmp", "jpeg", "jpeg2000", "tiff", "png", "webp", "ppm"])
def test_formats_of_onnx_are_decoded(name: str):
    settings, form = {"format": "RGB"}, Form((4, 8, 3), np.dtype(np.uint8))
    (size,) = find_host_function("image_size").run(settings, [in_format(name)], [])
    (pixels,) = find_host_function("image_decode").run(settings, [in_format(name)], [form])
    assert size.tolist() == [4, 8] and pixels.shape == (4, 8, 3)
    np.testing.assert_allclose(pixels[2, 4], [255, 0, 0], atol=8)


@pytest.mark.parametrize("name", ["eps", "gif", "ico", "tga", "pcx", "sgi", "dds"])
def test_no_other_reader_sees_the_bytes(name: str):
    for function in ("image_size", "image_decode"):
        with pytest.raises(InputError, match="not an image that can be decoded"):
            find_host_function(function).run({"format": "RGB"}, [in_format(name)], [])


def test_without_the_library(monkeypatch):
    own = builtins.__import__

    def absent(name: str, *args, **kwargs):
        if name.startswith("PIL"):
            raise ImportError(name)
        return own(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(UnsupportedError, match=r"Pillow.*pip install Pillow"):
        import_model(model_of("RGB"), shapes={"data": [10]})
