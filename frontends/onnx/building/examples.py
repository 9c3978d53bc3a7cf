"""Example networks: the small models that ship with the onnx package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from tcopt.support.errors import InputError


def _folder() -> Path:
    return Path(str(files("onnx"))) / "backend" / "test" / "data" / "light"


def example_models() -> list[str]:
    """Return the names of the example networks: `light_resnet50`, `light_vgg19`, ..."""
    return sorted(path.stem for path in _folder().glob("light_*.onnx"))


def find_example_model(name: str) -> Path:
    """Return the file of an example network. All its weights are equal: see `randomize_weights`.

    Raises:
        InputError: no example has this name.
    """
    path = _folder() / f"{name}.onnx"
    if name not in example_models():
        raise InputError(
            f"there is no example model {name!r}", hint=f"there are {', '.join(example_models())}"
        )
    return path
