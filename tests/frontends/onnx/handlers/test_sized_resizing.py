"""Resize of images with open sizes, against imports at each size."""

from __future__ import annotations

import onnx.parser
import pytest
from onnx import ModelProto

from models.sized_checks import check_sized
from tcopt.frontends.onnx import import_model
from tcopt.frontends.onnx.model.errors import OpenSizeError
from tcopt.support.arithmetic.size_ranges import GivenSize

SCALED = {
    "integer factor": 'y = Resize <mode = "nearest"> (x, , two)',
    "rounded up": 'y = Resize <mode = "nearest", nearest_mode = "ceil"> (x, , half)',
    "from origin": """y = Resize <mode = "nearest", nearest_mode = "floor",
        coordinate_transformation_mode = "asymmetric"> (x, , two)""",
    "fraction": 'y = Resize <mode = "nearest"> (x, , fraction)',
    "linear": 'y = Resize <mode = "linear"> (x, , two)',
    "linear, fraction": 'y = Resize <mode = "linear"> (x, , fraction)',
    "corners": """y = Resize <mode = "linear",
        coordinate_transformation_mode = "align_corners"> (x, , two)""",
    "symmetric": """y = Resize <mode = "linear",
        coordinate_transformation_mode = "half_pixel_symmetric"> (x, , fraction)""",
    "cubic": 'y = Resize <mode = "cubic", exclude_outside = 1> (x, , half)',
    "crop": """y = Resize <mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize",
        extrapolation_value = 2.0> (x, roi, two)""",
}
CONSTANTS = """
    two = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> ()
    half = Constant <value_floats = [1.0, 1.0, 2.0, 0.5]> ()
    fraction = Constant <value_floats = [1.0, 1.0, 0.75, 1.25]> ()
    roi = Constant <value_floats = [0.0, 0.0, -0.25, 0.25, 1.0, 1.0, 0.75, 1.25]> ()
    first = Constant <value_ints = [1, 2]> ()
"""
COORDINATES = ["half_pixel_symmetric", "pytorch_half_pixel", "align_corners"]


def parsed(body: str, inputs: str) -> ModelProto:
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 19]> g ({inputs}) => (float[a, b, c, d] y)'
        f" {{ {CONSTANTS} {body} }}"
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize("name", SCALED)
def test_factors(name: str) -> None:
    """Rows of any length; one case has images of any size."""
    is_image = name == "fraction"
    model = parsed(SCALED[name], f"float[1, 2, {'h' if is_image else 3}, w] x")
    ranges: dict[str, GivenSize] = {"h": (2, 9), "w": (2, 20)} if is_image else {"w": (2, 20)}
    sizes = [{"h": h, "w": w} for h, w in ((2, 2), (3, 17), (8, 3), (9, 20))]
    check_sized(model, ranges, [{name: each[name] for name in ranges} for each in sizes])


@pytest.mark.parametrize(
    ("mode", "coordinate"),
    [
        ("nearest", "half_pixel"),
        ("cubic", "align_corners"),
        *(("linear", coordinate) for coordinate in COORDINATES),
    ],
)
def test_the_size_of_another_image(mode: str, coordinate: str) -> None:
    body = f"""shape = Shape <start = 2> (z)
        sizes = Concat <axis = 0> (first, shape)
        y = Resize <mode = "{mode}", coordinate_transformation_mode = "{coordinate}">
            (x, , , sizes)"""
    model = parsed(body, "float[1, 2, h, 5] x, float[1, 1, p, 5] z")
    sizes = [{"h": h, "p": p} for h, p in ((2, 1), (3, 9), (9, 4))]
    check_sized(model, {"h": (2, 9), "p": (1, 9)}, sizes)


def test_a_window_that_depends_on_sizes_needs_a_number() -> None:
    model = parsed('y = Resize <mode = "linear", antialias = 1> (x, , half)', "float[1, 1, h, 9] x")
    with pytest.raises(OpenSizeError, match="Resize"):
        import_model(model, dims={"h": (4, 9)})
