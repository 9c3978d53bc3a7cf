"""Products by matrices of 2, 4 and 8 bits with a scale for each block, against onnxruntime.

    python benchmarks/few_bits.py                                 # 4 bits, 1 and 128 rows
    python benchmarks/few_bits.py --sizes 896x4864 --rows 1 8 --bits 2 4 8 --rounds 31

Each product is a `MatMulNBits` with blocks of 32 whose scales f16 represents exactly, at accuracy
levels 0 (sums of floats) and 4 (data rounded to 8 bits by block). All sides run on one thread, in
turns; times are medians of its CPU time, so that other processes disturb them less. `of memory` is
the rate at which tcopt reads weights, relative to the rate at which numpy reads an array far larger
than the caches, measured in the same turns. Matrices smaller than the last cache may exceed 1. The
output is a Markdown table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

import tcopt
from tcopt.dialects.graph import BlockwiseMatmulOp
from tcopt.dialects.graph.core.types import bytes_of, type_of
from tcopt.frontends.onnx import import_model

SIZES = ("896x4864", "4864x896", "896x151936")
BLOCK = 32
BURST = 5
TOLERANCE = {0: 1e-4, 4: 2e-3}
"""Largest difference by accuracy level, relative to the largest result: ties round differently."""
TITLES = (
    "rows x K x N", "bits", "level", "bytes a weight", "tcopt us", "onnxruntime us",
    "x onnxruntime", "GB/s", "of memory", "GFLOP/s",
)  # fmt: skip


def product(rows: int, depth: int, columns: int, bits: int, level: int) -> ModelProto:
    """Return a model with one product."""
    rng = np.random.default_rng(0)
    blocks = -(-depth // BLOCK)
    codes = rng.integers(0, 256, (columns, blocks, BLOCK * bits // 8), np.uint8)
    scales = (rng.integers(1, 64, columns * blocks) / 1024).astype(np.float32)
    node = helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=depth, N=columns,
        bits=bits, block_size=BLOCK, accuracy_level=level,
    )  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (rows, depth))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (rows, columns))
    weights = [numpy_helper.from_array(codes, "w"), numpy_helper.from_array(scales, "s")]
    graph = helper.make_graph([node], "product", [x], [y], weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def weight_bytes(model: ModelProto) -> int:
    """Return the bytes of codes, scales and zero points that a product reads."""
    (op,) = (op for op in import_model(model).walk() if isinstance(op, BlockwiseMatmulOp))
    return sum(bytes_of(type_of(operand)) for operand in op.operands[1:])


def medians(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median CPU seconds of each side. Bursts of all sides are run in turns; the first
    run of a burst, whose data another side has evicted, does not count.
    """
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            run()
            for _ in range(BURST):
                started = time.thread_time()
                run()
                times[name].append(time.thread_time() - started)
    return {name: float(np.median(each)) for name, each in times.items()}


def measure(
    rows: int, size: str, bits: int, level: int, rounds: int, array: np.ndarray
) -> list[str]:
    """Return a row of the table."""
    depth, columns = map(int, size.split("x"))
    model = product(rows, depth, columns, bits, level)
    compiled = tcopt.compile(model)
    compiled.threads = 1
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    feeds = {"x": np.random.default_rng(1).standard_normal((rows, depth)).astype(np.float32)}
    (result,) = compiled.run(feeds)
    expected = np.asarray(session.run(None, feeds)[0])
    assert np.abs(result - expected).max() < TOLERANCE[level] * np.abs(expected).max()
    sides: dict[str, Callable[[], object]] = {
        "tcopt": partial(compiled.run, feeds),
        "onnxruntime": partial(session.run, None, feeds),
        "memory": partial(np.dot, array, array),
    }
    times = medians(sides, rounds)
    ours, read = times["tcopt"], weight_bytes(model)
    bandwidth = array.nbytes / times["memory"]
    return [
        f"{rows} x {depth} x {columns}",
        str(bits),
        str(level),
        f"{read / (depth * columns):.3f}",
        f"{ours * 1e6:.0f}",
        f"{times['onnxruntime'] * 1e6:.0f}",
        f"{times['onnxruntime'] / ours:.2f}",
        f"{read / ours / 1e9:.1f}",
        f"{read / ours / bandwidth:.2f}",
        f"{2 * rows * depth * columns / ours / 1e9:.0f}",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", nargs="*", default=SIZES, help="K x N, such as 896x4864")
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 128])
    parser.add_argument("--bits", type=int, nargs="*", default=[4])
    parser.add_argument("--levels", type=int, nargs="*", default=[0, 4])
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args(arguments)
    array = np.ones(1 << 25, np.float32)
    print(" | ".join(("", *TITLES, "")).strip())
    print("|" + "---|" * len(TITLES))
    for rows in options.rows:
        for size in options.sizes:
            for bits in options.bits:
                for level in options.levels:
                    row = measure(rows, size, bits, level, options.rounds, array)
                    print(" | ".join(("", *row, "")).strip(), flush=True)


if __name__ == "__main__":
    main()
