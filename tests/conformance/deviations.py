"""Cases that are meant to fail, each with the reason: other runtimes agree on something else."""

from __future__ import annotations

_CORNERS = (
    "onnxruntime and PyTorch put the last element of the result at the corner; ONNX's reference "
    "does so only where the scale gives a whole number of elements"
)

DEVIATIONS = {
    "test_resize_downsample_scales_cubic_align_corners": _CORNERS,
    "test_resize_downsample_scales_linear_align_corners": _CORNERS,
}
