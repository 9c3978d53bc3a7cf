"""Handler of ImageDecoder."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from tcopt.dialects.graph.core.types import element_of
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.support.host.host_functions.images import FORMATS, check_library


@handler("ImageDecoder")
def image_decoder(ctx: NodeContext) -> SSAValue:
    """Pixels of an encoded image, in any format that Pillow supports."""
    data, wanted = ctx.input(0), ctx.get_string("pixel_format")
    ctx.check(ctx.rank(data) == 1, "data should be the bytes of one file")
    ctx.check(wanted in FORMATS, f"pixel_format cannot be {wanted!r}")
    check_library()
    extents = ctx.measured(ctx.host("image_size", [data], (2,), i64), "the size of the image")
    shape = (*extents, 1 if wanted == "Grayscale" else 3)
    byte = element_of(np.dtype(np.uint8))
    return ctx.host("image_decode", [data], shape, byte, format=wanted)
