"""Convolutions of 1 and 2 bits against 8 bits and f32, for ResNet-18's layers C2 to C12.

    python benchmarks/bits.py                              # all layers, one and two threads
    python benchmarks/bits.py --layers C2 C6 --threads 1 --rounds 9
    python benchmarks/bits.py --kinds int8 A1W1 A1W1-tables A8W1-tables A8W2-tables

`bit_products.py` has matrix products.

Each layer reads data of its number of bits and quantises its result to as many, as within a
quantised network; the layer packs data of 1 and 2 bits. A2W1 has data of 2 bits and weights of one,
-1 or 1; `-tables` uses tables of sums where the others use popcounts. Runs of all sides of a layer
are interleaved, and reported times are medians; the last columns compare burst by burst. The output
is a Markdown table.

The layers are those of the TVM paper's table 2, for which its figure 18 shows A2W1 on an Arm Cortex
A53. docs/bits.md explains the results.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from onnx import ModelProto, TensorProto, helper

import tcopt
from table2 import LAYERS
from table2 import Layer as Convolution
from tcopt.support.processes.turns import speed, take_turns


@dataclass(frozen=True)
class Kind:
    """Types of data and weights.

    Attributes:
        numbers: possible values of weights; None for floats.
        passes: options of the compile's passes.
    """

    name: str
    data: str
    weights: str
    numbers: tuple[int, ...] | None
    most: int = 0
    passes: tuple[tuple[str, str], ...] = ()

    def model(self, layer: Convolution, seed: int = 0) -> ModelProto:
        """Return a layer of this kind, from `x` to `y`."""
        rng = np.random.default_rng(seed)
        shape = (layer.outputs, layer.inputs, layer.kernel, layer.kernel)
        values: list[TensorProto] = []

        def value(name: str, array: object, element: str) -> None:
            numbers = np.asarray(array)
            kind = TensorProto.DataType.Value(element)
            values.append(helper.make_tensor(name, kind, numbers.shape, numbers.ravel().tolist()))

        window = {
            "kernel_shape": [layer.kernel] * 2,
            "strides": [layer.stride] * 2,
            "pads": [layer.pad] * 4,
        }
        size = (1, layer.inputs, layer.size, layer.size)
        if self.numbers is None:
            value("w", rng.standard_normal(shape).astype(np.float32), "FLOAT")
            nodes = [
                helper.make_node("Conv", ["x", "w"], ["c"], **window),
                helper.make_node("Relu", ["c"], ["y"]),
            ]
            return _model(nodes, values, TensorProto.FLOAT, size)
        value("w", rng.choice(np.array(self.numbers), shape), self.weights)
        value("ws", np.float32(0.5), "FLOAT")
        value("xs", np.float32(0.25), "FLOAT")
        value("ys", np.float32(0.5 * np.sqrt(layer.inputs * layer.kernel**2)), "FLOAT")
        value("t", np.float32(0), "FLOAT")
        # A one-bit value is a comparison of the result with a threshold.
        is_bit = self.data == "BOOL"
        value("z", 0, "UINT8" if is_bit else self.data)
        first, last = ("cx", "c") if is_bit else ("x", "r")
        nodes = [
            helper.make_node("DequantizeLinear", [first, "xs", "z"], ["d"]),
            helper.make_node("DequantizeLinear", ["w", "ws"], ["v"]),
            helper.make_node("Conv", ["d", "v"], ["c"], **window),
        ]
        if is_bit:
            nodes.insert(0, helper.make_node("Cast", ["x"], ["cx"], to=TensorProto.UINT8))
            nodes.append(helper.make_node("Greater", [last, "t"], ["y"]))
        else:
            nodes.append(helper.make_node("Relu", ["c"], ["r"]))
            nodes.append(helper.make_node("QuantizeLinear", [last, "ys", "z"], ["y"]))
        return _model(nodes, values, TensorProto.DataType.Value(self.data), size)

    def inputs(self, layer: Convolution) -> np.ndarray:
        """Return data for the layer."""
        rng = np.random.default_rng(1)
        size = (1, layer.inputs, layer.size, layer.size)
        if self.numbers is None:
            return rng.standard_normal(size).astype(np.float32)
        element = helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(self.data))
        return rng.integers(0, self.most + 1, size).astype(element)


def _model(
    nodes: Sequence[object], values: Sequence[TensorProto], element: int, size: Sequence[int]
) -> ModelProto:
    x = helper.make_tensor_value_info("x", element, size)
    y = helper.make_tensor_value_info("y", element, None)
    graph = helper.make_graph(nodes, "layer", [x], [y], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)


_SIGNS, _TWO_BITS, _BYTES = (-1, 1), (-2, -1, 0, 1), tuple(range(-127, 128))


def _by(method: str) -> tuple[tuple[str, str], ...]:
    return (("instead-of:bit-serial", f"bit-serial{{method={method}}}"),)


KINDS = (
    Kind("f32", "FLOAT", "FLOAT", None),
    Kind("int8", "UINT8", "INT8", _BYTES, 255),
    Kind("A1W1", "BOOL", "INT2", _SIGNS, 1, _by("popcount")),
    Kind("A2W1", "UINT2", "INT2", _SIGNS, 3, _by("popcount")),
    Kind("A2W2", "UINT2", "INT2", _TWO_BITS, 3, _by("popcount")),
    Kind("A1W1-tables", "BOOL", "INT2", _SIGNS, 1, _by("lookup")),
    Kind("A2W1-tables", "UINT2", "INT2", _SIGNS, 3, _by("lookup")),
    Kind("A8W1-tables", "UINT8", "INT2", _SIGNS, 255, _by("lookup")),
    Kind("A8W2-tables", "UINT8", "INT2", _TWO_BITS, 255, _by("lookup")),
)


def compiled(layer: Convolution, kind: Kind, threads: int) -> Callable[[], list[np.ndarray]]:
    """Return a run of a layer."""
    model = tcopt.compile(kind.model(layer), passes=dict(kind.passes))
    model.threads = threads
    return partial(model.run, {"x": kind.inputs(layer)})


def measure(layer: Convolution, kinds: Sequence[Kind], rounds: int, threads: int) -> list[str]:
    """Return a row of the table: microseconds of each kind, and its speed-up over int8."""
    sides = {kind.name: compiled(layer, kind, threads) for kind in kinds}
    times = take_turns(sides, rounds)
    row = [f"{times[kind.name].median * 1e6:.0f}" for kind in kinds]
    if "int8" in times:
        others = [kind.name for kind in kinds if kind.name != "int8"]
        row += [f"{speed(times[name], times['int8']):.2f}" for name in others]
    return [layer.name, *row]


def print_table(kinds: Sequence[Kind], rows: Sequence[Sequence[str]]) -> None:
    """Print the rows as Markdown."""
    names = [kind.name for kind in kinds]
    titles = ["layer", *(f"{name} us" for name in names)]
    if "int8" in names:
        titles += [f"{name} x int8" for name in names if name != "int8"]
    print("| " + " | ".join(titles) + " |")
    print("|" + "---|" * len(titles))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--layers", nargs="*", help="C2 ... C12; all by default")
    parser.add_argument("--kinds", nargs="*", help=", ".join(kind.name for kind in KINDS))
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    layers = [each for each in LAYERS if not options.layers or each.name in options.layers]
    kinds = [each for each in KINDS if not options.kinds or each.name in options.kinds]
    for threads in options.threads:
        print(f"\n{threads} {'thread' if threads == 1 else 'threads'}\n")
        print_table(kinds, [measure(each, kinds, options.rounds, threads) for each in layers])


if __name__ == "__main__":
    main()
