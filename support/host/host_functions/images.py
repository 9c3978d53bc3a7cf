"""Decoding of image files by Pillow."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from typing import Any

import numpy as np

from tcopt.support.errors import CancelledError, InputError, UnsupportedError
from tcopt.support.host.host_functions.registry import Array, Form, Settings, host_function
from tcopt.support.processes.stop_checks import apart

_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}
FORMATS = tuple(_MODES)
_FILE_FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")
"""Pillow's readers for the formats of the ONNX standard; others, such as EPS, may run programs."""


def check_library() -> None:
    """Check that the image library is installed.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        import PIL.Image  # noqa: F401  # pyright: ignore
    except ImportError:
        raise UnsupportedError(
            "decoding images needs the package Pillow, which is not installed",
            hint="install it: pip install Pillow",
        ) from None


@contextmanager
def _opened(data: Array) -> Generator[Any]:
    """Open encoded bytes as an image; raise InputError if they are not one."""
    check_library()
    reader: Any = import_module("PIL.Image")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with reader.open(BytesIO(data.tobytes()), formats=_FILE_FORMATS) as image:
                yield image
    except CancelledError:
        raise
    # Readers raise various exceptions for damaged data.
    except Exception as error:
        raise InputError(f"the data is not an image that can be decoded: {error}") from error


@host_function("image_size", takes=(False,), gives=(False,))
def image_size(settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]) -> list[Array]:
    """Return the height and width of an image."""
    with _opened(arrays[0]) as image:
        width, height = image.size
    return [np.array([height, width], np.int64)]


@host_function("image_decode", takes=(False,), gives=(False,))
def image_decode(settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]) -> list[Array]:
    """Return the pixels of an image, [height, width, channels]; `format` is one of `FORMATS`."""
    wanted = settings["format"]
    with _opened(arrays[0]) as image:
        pixels = apart(lambda: np.array(image.convert(_MODES[wanted])))
    pixels = pixels[:, :, None] if wanted == "Grayscale" else pixels
    # Compiled code uses signless bytes.
    pixels = np.ascontiguousarray(pixels[:, :, ::-1] if wanted == "BGR" else pixels)
    return [pixels.view(forms[0].dtype)]
