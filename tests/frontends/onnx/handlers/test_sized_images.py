"""Operators on images with open height, against imports at each size."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

from models.sized_checks import check_sized

ROWS = "float[1, 4, h, 7] x"
GRID = f"{ROWS}, float[1, p, 3, 2] grid"

CASES = {
    "strided convolution, same": (
        ROWS,
        'y = Conv <strides = [2, 2], auto_pad = "SAME_UPPER"> (x, taps)',
    ),
    "maximum, same": (
        ROWS,
        'y = MaxPool <kernel_shape = [3, 2], strides = [3, 2], auto_pad = "SAME_LOWER"> (x)',
    ),
    "mean, same": (
        ROWS,
        """y = AveragePool <kernel_shape = [2, 2], strides = [2, 2],
            auto_pad = "SAME_UPPER"> (x)""",
    ),
    "transposed": (
        ROWS,
        "y = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1]> (x, taps)",
    ),
    "skip connection": (
        "float[1, 4, h, 6] x",
        """small = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
        again = ConvTranspose <strides = [2, 2]> (small, pair)
        y = Concat <axis = 1> (x, again)""",
    ),
    "sizes as floats": (
        ROWS,
        """shape = Shape <start = 2> (x)
        numbers = Cast <to = 1> (shape)
        two = Constant <value_float = 2.0> ()
        scaled = Mul (numbers, two)
        whole = Floor (scaled)
        again = Cast <to = 7> (whole)
        first = Constant <value_ints = [1, 4]> ()
        sizes = Concat <axis = 0> (first, again)
        y = Resize <mode = "nearest"> (x, , , sizes)""",
    ),
    "range to a float": (
        ROWS,
        """zero = Constant <value_float = 0.0> ()
        one = Constant <value_float = 1.0> ()
        half = Constant <value_float = 0.5> ()
        shape = Shape <start = 2, end = 3> (x)
        number = Cast <to = 1> (shape)
        height = Squeeze (number)
        rows = Range (zero, height, one)
        centres = Add (rows, half)
        axis = Constant <value_ints = [1]> ()
        column = Unsqueeze (centres, axis)
        shares = Div (column, height)
        y = Add (x, shares)""",
    ),
    "grid, reflected": (
        GRID,
        'y = GridSample <mode = "nearest", padding_mode = "reflection"> (x, grid)',
    ),
    "grid, corners": (
        GRID,
        """y = GridSample <mode = "linear", padding_mode = "border",
            align_corners = 1> (x, grid)""",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_open_images(name: str) -> None:
    inputs, body = CASES[name]
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 20]> g ({inputs}) => (float[a, b, c, d] y)'
        f" {{ {body} }}"
    )
    rng = np.random.default_rng(0)
    for kernel, extent in (("taps", 3), ("pair", 2)):
        values = rng.standard_normal((4, 4, extent, extent)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, kernel))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    # Even heights: those of a skip connection are equal after pooling.
    heights = (2, 10, 2) if "small" in body else (1, 9)
    sizes = (2, 8, 4) if "small" in body else (1, 2, 9)
    dims = {"h": heights, "p": (1, 5)}
    ranges = {name: given for name, given in dims.items() if f" {name}," in inputs}
    values = [{"h": h, "p": 1 + h % 5} for h in sizes]
    check_sized(model, ranges, [{name: each[name] for name in ranges} for each in values])
