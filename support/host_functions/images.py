"""Images out of the bytes of files, by Pillow."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from typing import Any

import numpy as np

from tcopt.support.errors import CancelledError, InputError, UnsupportedError
from tcopt.support.host_functions.registry import Array, Form, Settings, host_function
from tcopt.support.stop_checks import apart

_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}
FORMATS = tuple(_MODES)
_FILE_FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")
"""Readers of Pillow for the formats that ONNX names; others may start programs, as EPS does."""


def check_library() -> None:
    """Check that what reads images is there.

    Raises:
        UnsupportedError: it is not.
    """
    try:
        import PIL.Image  # noqa: F401  # pyright: ignore
    except ImportError:
        raise UnsupportedError(
            "images are decoded by the package Pillow, which is not installed",
            hint="install it: pip install Pillow",
        ) from None


@contextmanager
def _opened(data: Array) -> Generator[Any]:
    """The image that bytes are; InputError if they are none."""
    check_library()
    reader: Any = import_module("PIL.Image")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with reader.open(BytesIO(data.tobytes()), formats=_FILE_FORMATS) as image:
                yield image
    except CancelledError:
        raise
    # Readers of formats fail in their own ways on what is damaged.
    except Exception as error:
        raise InputError(f"the data is not an image that can be decoded: {error}") from error


@host_function("image_size", takes=(False,), gives=(False,))
def image_size(settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]) -> list[Array]:
    """Height and width of an image."""
    with _opened(arrays[0]) as image:
        width, height = image.size
    return [np.array([height, width], np.int64)]


@host_function("image_decode", takes=(False,), gives=(False,))
def image_decode(settings: Settings, arrays: Sequence[Array], forms: Sequence[Form]) -> list[Array]:
    """The pixels [height, width, channels] of an image; settings: `format`, one of `FORMATS`."""
    wanted = settings["format"]
    with _opened(arrays[0]) as image:
        pixels = apart(lambda: np.array(image.convert(_MODES[wanted])))
    pixels = pixels[:, :, None] if wanted == "Grayscale" else pixels
    # Code has bytes without a sign of their own.
    pixels = np.ascontiguousarray(pixels[:, :, ::-1] if wanted == "BGR" else pixels)
    return [pixels.view(forms[0].dtype)]
