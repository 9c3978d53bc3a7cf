"""Matrix products with weights of 1, 2 and 4 bits: tables of data sums against 8-bit products.

    python benchmarks/bit_products.py                      # 1, 8 and 64 rows, one and two threads
    python benchmarks/bit_products.py --rows 1 --size 1024 --threads 1 --rounds 9

Rows of f32 are quantised to bytes, multiplied by a square matrix of constant weights, and scaled to
f32, like a layer of a language model with low-bit weights. `int8` has weights of 8 bits, and `W1`,
`W2` and `W4` have fewer: -1 and 1, -2 to 1, -8 to 7. Their products are 8-bit ones, or with
`-tables` looked-up sums. `f32` quantises neither operand, and `MatMulNBits` is onnxruntime's
product of f32 by weights of 4 bits in blocks of 32 (`-a8`: its data is quantised too, accuracy
level 4). Runs of the sides are interleaved; times are medians in microseconds, and the last columns
compare burst by burst. The output is a Markdown table. docs/bits.md explains the results.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import onnxruntime
from onnx import ModelProto, NodeProto, TensorProto, helper

import tcopt
from tcopt.support.processes.turns import speed, take_turns

Run = Callable[[], object]

_BLOCK = 32

WEIGHTS = {
    "int8": ("INT8", (-127, 127)),
    "W1": ("INT2", (-1, 1)),
    "W2": ("INT2", (-2, 1)),
    "W4": ("INT4", (-8, 7)),
}
"""ONNX types, minimum and maximum value."""

SIDES = ("f32", "int8", "W1", "W1-tables", "W2", "W2-tables", "W4", "W4-tables")
THEIRS = ("MatMulNBits", "MatMulNBits-a8")


def _made(
    nodes: Sequence[NodeProto], values: Sequence[TensorProto], shape: Sequence[int], ir: int = 13
) -> ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "product", [x], [y], values)
    opset = 25 if ir == 13 else 21
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir)


def _value(name: str, array: object, element: str) -> TensorProto:
    numbers = np.asarray(array)
    kind = TensorProto.DataType.Value(element)
    return helper.make_tensor(name, kind, numbers.shape, numbers.ravel().tolist())


def quantised(kind: str, rows: int, size: int) -> ModelProto:
    """An 8-bit product with weights of a kind."""
    element, (least, most) = WEIGHTS[kind]
    rng = np.random.default_rng(0)
    numbers = np.array([-1, 1]) if kind == "W1" else np.arange(least, most + 1)
    weights = rng.choice(numbers, (size, size))
    values = [
        _value("w", weights, element),
        _value("ws", rng.uniform(0.5, 1, size).astype(np.float32), "FLOAT"),
        _value("wz", np.zeros(size, np.int64), element),
        _value("xs", np.float32(0.05), "FLOAT"),
        _value("z", 128, "UINT8"),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "xs", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["v"], axis=1),
        helper.make_node("MatMul", ["d", "v"], ["y"]),
    ]
    return _made(nodes, values, (rows, size))


def floats(rows: int, size: int) -> ModelProto:
    """A product in f32."""
    weights = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    return _made(nodes, [_value("w", weights, "FLOAT")], (rows, size))


def in_blocks(rows: int, size: int, level: int) -> ModelProto:
    """A product of f32 by weights of 4 bits in blocks."""
    rng = np.random.default_rng(0)
    count = size // _BLOCK
    codes = rng.integers(0, 256, (size, count, _BLOCK // 2)).astype(np.uint8)
    scales = rng.uniform(0.5, 1, size * count).astype(np.float32)
    values = [_value("w", codes, "UINT8"), _value("ws", scales, "FLOAT")]
    options = {"K": size, "N": size, "bits": 4, "block_size": _BLOCK, "accuracy_level": level}
    node = helper.make_node("MatMulNBits", ["x", "w", "ws"], ["y"], None, None, "com.microsoft")
    node.attribute.extend(helper.make_attribute(name, n) for name, n in options.items())
    return _made([node], values, (rows, size), ir=10)


def ours(name: str, rows: int, size: int, threads: int) -> Run:
    """Return a run of one of our sides."""
    kind, _, tables = name.partition("-")
    model = floats(rows, size) if kind == "f32" else quantised(kind, rows, size)
    method = "lookup" if tables else "never"
    passes = {} if kind == "f32" else {"instead-of:bit-serial": f"bit-serial{{method={method}}}"}
    compiled = tcopt.compile(model, passes=passes)
    compiled.threads = threads
    return partial(compiled.run, {"x": _data(rows, size)})


def theirs(name: str, rows: int, size: int, threads: int) -> Run:
    """Return a run of onnxruntime's product."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    model = in_blocks(rows, size, 4 if name.endswith("-a8") else 0)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return partial(session.run, None, {"x": _data(rows, size)})


def _data(rows: int, size: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((rows, size)).astype(np.float32)


def measure(rows: int, size: int, sides: Sequence[str], rounds: int, threads: int) -> list[str]:
    """Return a row of the table: microseconds of each side, and its speed-up over int8."""
    runs = {name: (theirs if name in THEIRS else ours)(name, rows, size, threads) for name in sides}
    times = take_turns(runs, rounds)
    row = [f"{times[name].median * 1e6:.0f}" for name in sides]
    if "int8" in times:
        others = [name for name in sides if name != "int8"]
        row += [f"{speed(times[name], times['int8']):.2f}" for name in others]
    return [f"{rows}x{size}x{size}", *row]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 8, 64])
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--sides", nargs="*", default=[*SIDES, *THEIRS])
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    sides = options.sides
    titles = ["product", *(f"{name} us" for name in sides)]
    if "int8" in sides:
        titles += [f"{name} x int8" for name in sides if name != "int8"]
    for threads in options.threads:
        print(f"\n{threads} {'thread' if threads == 1 else 'threads'}\n")
        print("| " + " | ".join(titles) + " |")
        print("|" + "---|" * len(titles))
        for rows in options.rows:
            row = measure(rows, options.size, sides, options.rounds, threads)
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
