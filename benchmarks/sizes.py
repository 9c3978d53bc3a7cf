"""Speed of programs for ranges of sizes, against programs compiled for each size, and onnxruntime.

    python benchmarks/sizes.py [--networks bert resnet18] [--count 16] [--threads 1] [--seed 0]

A network is compiled once for its ranges. Sizes are drawn, most of them small, and for each the
network is compiled again for this size alone. The programs run in turns; times are medians. Outputs
are compared with onnxruntime's.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnxruntime as ort
from onnx import ModelProto, TensorProto

import tcopt
from tcopt.frontends.onnx.building.network import Network
from zoo import resnet18

Feeds = dict[str, np.ndarray]
Sizes = dict[str, int]


@dataclass(frozen=True)
class OpenNetwork:
    """A network with open dimensions.

    Attributes:
        dims: the range of each.
        feeds: returns random inputs for given sizes.
    """

    build: Callable[[], ModelProto]
    dims: Mapping[str, tuple[int, int]]
    feeds: Callable[[Sizes, np.random.Generator], Feeds]


def bert(layers: int = 12, width: int = 768, heads: int = 12, longest: int = 512) -> ModelProto:
    """Build BERT in the form that exporters write: nodes compute shapes from the input's shape."""
    net = Network("bert")
    ids = net.input("input_ids", ["batch", "length"], TensorProto.INT64)
    mask = net.input("attention_mask", ["batch", "length"], TensorProto.INT64)
    x = net.add("Gather", net.normal([30522, width], 0.5), ids, axis=0)
    length = net.add("Slice", net.add("Shape", ids), net.ints(1), net.ints(2))
    table = net.normal([1, longest, width], 0.2)
    positions = net.add("Slice", table, net.ints(0), length, net.ints(1))
    x = net.layer_norm(net.add("Add", x, positions), width)
    mask = net.add("Cast", net.add("Unsqueeze", mask, net.ints(1, 2)), to=TensorProto.FLOAT)
    mask = net.add("Mul", net.add("Sub", net.scalar(1.0), mask), net.scalar(-10000.0))
    for _ in range(layers):
        y = _attention(net, x, heads, width, mask)
        x = net.layer_norm(net.add("Add", x, y), width)
        y = net.linear(net.add("Gelu", net.linear(x, width, 4 * width)), 4 * width, width)
        x = net.layer_norm(net.add("Add", x, y), width)
    net.opset = 20
    return net.model(**{x: ["batch", "length", width]})


def _attention(net: Network, x: str, heads: int, width: int, mask: str) -> str:
    head = width // heads
    q, k, v = (
        net.add("Reshape", net.linear(x, width, width), net.ints(0, 0, heads, head))
        for _ in range(3)
    )
    q, v = (net.add("Transpose", each, perm=[0, 2, 1, 3]) for each in (q, v))
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 2, 3, 1]))
    scores = net.add("Add", net.add("Div", scores, net.scalar(math.sqrt(head))), mask)
    context = net.add("MatMul", net.add("Softmax", scores, axis=-1), v)
    context = net.add("Transpose", context, perm=[0, 2, 1, 3])
    return net.linear(net.add("Reshape", context, net.ints(0, 0, width)), width, width)


def _tokens(sizes: Sizes, rng: np.random.Generator) -> Feeds:
    shape = sizes["batch"], sizes["length"]
    return {
        "input_ids": rng.integers(0, 30522, shape),
        "attention_mask": np.ones(shape, np.int64),
    }


def _opened(model: ModelProto, names: Mapping[int, str]) -> ModelProto:
    """Open dimensions of the first input, and drop the declared shapes of results."""
    for axis, name in names.items():
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    for output in model.graph.output:
        for axis, dim in enumerate(output.type.tensor_type.shape.dim):
            dim.dim_param = f"out{axis}"
    del model.graph.value_info[:]
    return model


def _images(model: ModelProto, sizes: Sizes, rng: np.random.Generator) -> Feeds:
    (x,) = model.graph.input
    shape = [sizes.get(d.dim_param, d.dim_value) for d in x.type.tensor_type.shape.dim]
    return {x.name: rng.standard_normal(shape).astype(np.float32)}


NETWORKS = {
    "bert": OpenNetwork(bert, {"length": (1, 512), "batch": (1, 8)}, _tokens),
    "bert_length": OpenNetwork(bert, {"length": (1, 512), "batch": (1, 1)}, _tokens),
    "bert_layer": OpenNetwork(lambda: bert(1), {"length": (1, 512), "batch": (1, 1)}, _tokens),
    "resnet18": OpenNetwork(
        lambda: _opened(resnet18.build(), {0: "batch"}),
        {"batch": (1, 16)},
        lambda sizes, rng: _images(_opened(resnet18.build(), {0: "batch"}), sizes, rng),
    ),
}


def drawn(dims: Mapping[str, tuple[int, int]], count: int, rng: np.random.Generator) -> list[Sizes]:
    """Draw sizes whose logarithms are uniform, and the ends of the ranges."""
    found = [{name: low for name, (low, _) in dims.items()}]
    found.append({name: high for name, (_, high) in dims.items()})
    while len(found) < count:
        shares = rng.random(len(dims))
        one = {
            name: round(low * (high / low) ** share)
            for (name, (low, high)), share in zip(dims.items(), shares, strict=True)
        }
        if one not in found:
            found.append(one)
    return sorted(found, key=lambda sizes: math.prod(sizes.values()))


def medians(runs: Sequence[Callable[[], object]], seconds: float) -> list[float]:
    """Return the median seconds of functions that are called in turns."""
    times: list[list[float]] = [[] for _ in runs]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for own, run in zip(times, runs, strict=True):
            start = time.perf_counter()
            run()
            own.append(time.perf_counter() - start)
    return [statistics.median(own) for own in times]


def measure(name: str, args: argparse.Namespace) -> None:
    """Print a row for each drawn size of a network."""
    network, rng = NETWORKS[name], np.random.default_rng(args.seed)
    model = network.build()
    start = time.process_time()
    ranged = tcopt.compile(model, dims=network.dims, cache=False)
    print(f"{name}: compiled in {time.process_time() - start:.1f} CPU s", flush=True)
    ranged.threads = args.threads
    options = ort.SessionOptions()
    options.intra_op_num_threads = args.threads
    peer = ort.InferenceSession(model.SerializeToString(), options)
    ratios: list[float] = []
    for sizes in drawn(network.dims, args.count, rng):
        feeds = network.feeds(sizes, rng)
        start = time.process_time()
        own = tcopt.compile(model, dims=sizes, cache=False)
        spent = time.process_time() - start
        own.threads = args.threads
        (want,), (result,) = peer.run(None, feeds), ranged.run(feeds)
        error = np.abs(result - want).max() / np.abs(want).max()
        runs = [partial(ranged.run, feeds), partial(own.run, feeds), partial(peer.run, None, feeds)]
        ours, fixed, ort_time = medians(runs, args.seconds)
        ratios.append(fixed / ours)
        print(
            f"{sizes!s:34} {ours * 1e3:8.2f} ms  x{fixed / ours:5.2f} of fixed  "
            f"x{ort_time / ours:5.2f} of onnxruntime  error {error:.1e}  compile {spent:.1f} s",
            flush=True,
        )
    print(f"geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=["bert_layer"], choices=NETWORKS)
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for name in args.networks:
        measure(name, args)


if __name__ == "__main__":
    main()
