"""Accuracy loss of each accuracy setting: errors against the same arithmetic in double precision.

    python benchmarks/accuracy.py                       # convolutions and small networks
    python benchmarks/accuracy.py light_vgg19 net.onnx  # only these networks

Data is normally distributed, after a ReLU, and weights are scaled to preserve its magnitude. A
result's error is its largest deviation over the largest expected magnitude; the root mean square,
relative to the same magnitude, is next to it. `direct` is a compile without the pass `winograd`,
and onnxruntime computes convolutions directly too: both show the error of single precision. The
output is a Markdown table.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, numpy_helper
from onnx.reference import ReferenceEvaluator

import tcopt
from tcopt.compiler import Phase, pipeline
from tcopt.frontends.onnx.building.examples import find_example_model
from tcopt.frontends.onnx.building.network import Network
from tcopt.frontends.onnx.building.random_weights import randomize_weights
from tcopt.support.accuracy import ACCURACIES
from zoo import dcgan_generator, dqn, resnet18

Array = NDArray[Any]

LAYERS = (
    (56, 64, 64, 3),
    (28, 128, 128, 3),
    (14, 256, 256, 3),
    (7, 512, 512, 3),
    (112, 64, 128, 3),
    (28, 32, 96, 5),
)
"""Image extent, input and output channels, kernel extent."""

NETWORKS = {"ResNet-18": resnet18, "DQN": dqn, "DCGAN generator": dcgan_generator}


def layer(extent: int, inputs: int, outputs: int, kernel: int) -> ModelProto:
    """A convolution with stride 1."""
    net = Network("layer")
    x = net.input("image", [1, inputs, extent, extent])
    return net.model(**{net.conv(x, inputs, outputs, kernel, 1): [1, outputs, extent, extent]})


def in_double(model: ModelProto) -> ModelProto:
    """Return the model with every float in double precision."""
    double = ModelProto()
    double.CopyFrom(model)
    single, wide = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
    for tensor in double.graph.initializer:
        if tensor.data_type == single:
            array = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for value in (*double.graph.input, *double.graph.output, *double.graph.value_info):
        if value.type.tensor_type.elem_type == single:
            value.type.tensor_type.elem_type = wide
    return double


def errors(actual: Array, expected: Array) -> tuple[float, float]:
    """Return the largest error and the root mean square, over the largest magnitude."""
    difference = np.abs(actual.astype(np.float64) - expected)
    scale = np.abs(expected).max()
    return float(difference.max() / scale), float(np.sqrt((difference**2).mean()) / scale)


def direct_pipeline(target: str, accuracy: str, precision: str) -> list[Phase]:
    """The phases of a compile without Winograd."""
    return [phase.without("winograd") for phase in pipeline(target, accuracy, precision)]


def measure(model: ModelProto) -> dict[str, tuple[float, float]]:
    """Return errors by side."""
    rng = np.random.default_rng(0)
    compiled = {accuracy: tcopt.compile(model, accuracy=accuracy) for accuracy in ACCURACIES}
    with mock.patch("tcopt.compiler.options.pipeline", direct_pipeline):
        compiled = {"direct": tcopt.compile(model, cache=False), **compiled}
    feeds = {
        spec.name: np.maximum(rng.standard_normal([int(n or 1) for n in spec.shape]), 0).astype(
            np.float32
        )
        for spec in compiled["direct"].inputs
    }
    wide = {name: value.astype(np.float64) for name, value in feeds.items()}
    expected: Any = ReferenceEvaluator(in_double(model)).run(None, wide)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    result: Any = session.run(None, feeds)
    sides = {"onnxruntime": errors(result[0], expected[0])}
    for side, program in compiled.items():
        sides[side] = errors(program.run(feeds)[0], expected[0])
    return sides


def load(name: str) -> ModelProto:
    """Return a model file, or a light model of the onnx package with random weights."""
    if Path(name).is_file():
        return onnx.load(name)
    return randomize_weights(onnx.load(str(find_example_model(name))), 0)


def main() -> None:
    """Entry point of the script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help="ONNX files, or names such as light_vgg19")
    args = parser.parse_args()
    work = {name: load(name) for name in args.models}
    if not work:
        work = {
            f"{n}x{n}, {i} to {o} channels, {k}x{k}": layer(n, i, o, k) for n, i, o, k in LAYERS
        }
        work |= {name: module.build() for name, module in NETWORKS.items()}
    sides = ("network", "onnxruntime", "direct", *ACCURACIES)
    print("| " + " | ".join(sides) + " |")
    print("|---" * len(sides) + "|")
    for name, model in work.items():
        cells = [f"{most:.1e} ({root:.0e})" for most, root in measure(model).values()]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
