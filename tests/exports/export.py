"""Export the architectures and store them: `python tests/exports/export.py [NAME ...]`.

Only this script needs torch, torchvision, onnxscript and transformers. The tests run the stored
models.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import onnx
import torch
from onnx import ModelProto
from torch import nn

from exports.architectures import ARCHITECTURES, Architecture
from exports.stored import FOLDER, store


def export(architecture: Architecture, exporter: str, opset: int, seed: int = 0) -> ModelProto:
    """Export an ONNX model with an exporter (`legacy` or `dynamo`)."""
    torch.manual_seed(seed)
    module = architecture.make()
    _settle(module, tuple(architecture.inputs.values()))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = str(Path(folder) / "model.onnx")
        torch.onnx.export(
            module.eval(),
            tuple(architecture.inputs.values()),
            path,
            input_names=list(architecture.inputs),
            output_names=list(architecture.outputs),
            opset_version=opset,
            dynamo=exporter == "dynamo",
            verbose=False,
            **_dynamic(architecture, exporter),
        )
        return onnx.load(path)


def _dynamic(architecture: Architecture, exporter: str) -> dict:
    if not architecture.dynamic:
        return {}
    if exporter == "legacy":
        return {"dynamic_axes": {name: dict(axes) for name, axes in architecture.dynamic.items()}}
    dims = {
        name: torch.export.Dim(name, min=1, max=512)
        for axes in architecture.dynamic.values()
        for name in axes.values()
    }
    shapes: list = [
        {axis: dims[name] for axis, name in architecture.dynamic.get(value, {}).items()}
        for value in architecture.inputs
    ]
    if architecture.rest:
        shapes = [*shapes[: -architecture.rest], tuple(shapes[-architecture.rest :])]
    return {"dynamic_shapes": tuple(shapes)}


@torch.no_grad()
def _settle(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    """Randomise uniform parameters, and give batch norms the statistics of their inputs.

    Networks are initialised with norms of scale one, branches scaled to nearly zero, or zero heads,
    which would hide errors.
    """
    for parameter in module.parameters():
        if parameter.numel() > 1 and torch.all(parameter == parameter.flatten()[0]):
            if parameter.flatten()[0] == 0:
                parameter.normal_(0, 0.1)
            else:
                parameter.uniform_(0.8, 1.2)
    norms = [part for part in module.modules() if isinstance(part, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None
    if norms:
        module.train()(*(torch.cat([value] * 4) for value in inputs))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="architectures (default: all)")
    chosen = parser.parse_args(arguments).names or list(ARCHITECTURES)
    failed = 0
    for name in chosen:
        architecture = ARCHITECTURES[name]
        inputs = {
            "sizes": [dict(sizes) for sizes in architecture.sizes],
            "below": architecture.below,
            "masks": list(architecture.masks),
        }
        for exporter, opset in architecture.exporters:
            title = f"{name}.{exporter}.{opset}"
            try:
                size = store(title, export(architecture, exporter, opset), inputs)
            except Exception:
                traceback.print_exc()
                print(f"{title} failed", flush=True)
                failed += 1
            else:
                print(f"{title}: {size} bytes", flush=True)
    print(f"in {FOLDER}")
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
