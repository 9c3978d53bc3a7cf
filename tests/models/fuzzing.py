"""Small valid models with random changes: of bytes, or of nodes, attributes and weights.

    python -m models.fuzzing [SECONDS [SEED]]

compiles and runs mutated models for some time, and prints those with an outcome other than a result
or a `TcoptError`. A crash names the model's file; a hang ends the process after a timeout.
"""

from __future__ import annotations

import faulthandler
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

import tcopt
from models.network import Network
from tcopt.frontends.onnx.model.limits import ModelLimits
from tcopt.support.errors import TcoptError

HANG_SECONDS = 120
LARGEST_FEED = 1 << 16
LIMITS = ModelLimits(tensor_bytes=1 << 22, nodes=500, loop_steps=20, made_elements=1 << 16)
NUMBERS = (0, 1, 2, 3, 5, 8, -1, -2, -3, 7, 64, 1000, 2**31, -(2**31), 2**63 - 1, -(2**63))
FLOATS = (0.0, 1.0, -1.0, 0.5, 1e30, -1e30, float("inf"), float("-inf"), float("nan"))
OPERATORS = tuple(
    word
    for line in (
        "Add Sub Mul Div Relu Softmax Concat Gather Slice Reshape Transpose Conv MaxPool Clip",
        "AveragePool MatMul Gemm ReduceSum ReduceMax ArgMax Pad Tile Expand Cast Split TopK",
        "ScatterElements GatherElements GatherND CumSum Where Squeeze Unsqueeze Flatten Resize",
        "OneHot Trilu NonZero LayerNormalization BatchNormalization Identity Equal Not Mod Pow",
    )
    for word in line.split()
)


def image_net() -> ModelProto:
    net = Network("image", seed=1)
    x = net.input("x", [1, 3, 6, 6])
    x = net.add("Relu", net.batch_norm(net.conv(x, 3, 4), 4))
    x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("Pad", x, net.ints(0, 0, 1, 1, 0, 0, 1, 1))
    x = net.add("AveragePool", x, kernel_shape=[2, 2])
    x = net.gemm(net.add("Flatten", x), 64, 5)
    return net.model(**{net.add("Softmax", x, axis=-1): [1, 5]})


def shape_net() -> ModelProto:
    net = Network("shape", seed=2)
    x = net.input("x", [2, 3, 4])
    y = net.add("Transpose", x, perm=[0, 2, 1])
    y = net.add("Slice", y, net.ints(0, 1), net.ints(2, 4), net.ints(0, 1), net.ints(1, 2))
    y = net.add("Concat", y, y, axis=1)
    y = net.add("Gather", y, net.ints(0, 1, -1), axis=1)
    y = net.add("Tile", net.add("Expand", y, net.ints(2, 3, 3)), net.ints(1, 2, 1))
    a, b = net.add_many("Split", 2, net.add("Reshape", y, net.ints(4, -1)), net.ints(1, 3), axis=0)
    y = net.add("Add", a, net.add("ReduceMax", b, axes=[0], keepdims=1))
    return net.model(**{net.add("CumSum", y, net.weight(np.array(1))): [1, 9]})


def index_net() -> ModelProto:
    net = Network("index", seed=3)
    x = net.input("x", [4, 5])
    i = net.input("i", [2, 3], TensorProto.INT64)
    y = net.add("Gather", x, i, axis=0)
    j = net.add("Cast", net.add("ArgMax", x, axis=1, keepdims=0), to=TensorProto.INT64)
    z = net.add("GatherElements", x, net.add("Reshape", j, net.ints(4, 1)), axis=1)
    u = net.add("ScatterElements", x, i, net.normal([2, 3], 1.0), axis=1)
    top, _ = net.add_many("TopK", 2, u, net.ints(2), axis=1)
    g = net.add("GatherND", x, net.add("Slice", i, net.ints(0), net.ints(2), net.ints(1)))
    return net.model(**{y: [2, 3, 5], z: [4, 1], top: [4, 2], g: [2]})


def block_net() -> ModelProto:
    net = Network("block", seed=4)
    x = net.input("x", [1, 4, 8])
    q, k = net.linear(x, 8, 8), net.linear(x, 8, 8)
    s = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 2, 1]))
    s = net.add("Softmax", net.add("Mul", s, net.scalar(0.3)), axis=-1)
    y = net.layer_norm(net.add("Add", net.add("MatMul", s, x), x), 8)
    y = net.add("Where", net.add("Greater", y, net.scalar(0.0)), y, net.add("Erf", y))
    return net.model(**{net.add("Clip", y, net.scalar(-1.0), net.scalar(1.0)): [1, 4, 8]})


MODELS = (image_net, shape_net, index_net, block_net)

Change = Callable[[ModelProto, random.Random], None]


def _attribute(model: ModelProto, rng: random.Random) -> None:
    nodes = [node for node in model.graph.node if node.attribute]
    if not nodes:
        return
    attribute = rng.choice(rng.choice(nodes).attribute)
    if attribute.type == AttributeProto.INT:
        attribute.i = rng.choice(NUMBERS)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = rng.choice(FLOATS)
    elif attribute.type == AttributeProto.INTS and attribute.ints:
        place = rng.randrange(len(attribute.ints))
        match rng.randrange(3):
            case 0:
                attribute.ints[place] = rng.choice(NUMBERS)
            case 1:
                del attribute.ints[place]
            case _:
                attribute.ints.append(rng.choice(NUMBERS))
    if rng.random() < 0.1:
        attribute.name = rng.choice(("axis", "axes", "perm", "group", "to", ""))


def _drop_attribute(model: ModelProto, rng: random.Random) -> None:
    node = rng.choice(model.graph.node)
    if node.attribute:
        del node.attribute[rng.randrange(len(node.attribute))]


def _add_attribute(model: ModelProto, rng: random.Random) -> None:
    name = rng.choice(("axis", "keepdims", "group", "ceil_mode", "mode", "axes", "k", "largest"))
    value = rng.choice((rng.choice(NUMBERS), [rng.choice(NUMBERS)], "reflect", 0.5))
    rng.choice(model.graph.node).attribute.append(helper.make_attribute(name, value))


def _operator(model: ModelProto, rng: random.Random) -> None:
    rng.choice(model.graph.node).op_type = rng.choice(OPERATORS)


def _edge(model: ModelProto, rng: random.Random) -> None:
    node = rng.choice(model.graph.node)
    names = [name for other in model.graph.node for name in (*other.input, *other.output)]
    if node.input and rng.random() < 0.8:
        node.input[rng.randrange(len(node.input))] = rng.choice([*names, ""])
    elif node.input:
        del node.input[rng.randrange(len(node.input))]
    else:
        node.input.append(rng.choice(names))


def _node(model: ModelProto, rng: random.Random) -> None:
    place = rng.randrange(len(model.graph.node))
    if rng.random() < 0.5 and len(model.graph.node) > 1:
        del model.graph.node[place]
    else:
        copy = model.graph.node.add()
        copy.CopyFrom(model.graph.node[place])
        if rng.random() < 0.8:
            for index, name in enumerate(copy.output):
                copy.output[index] = f"{name}_again"


def _weight(model: ModelProto, rng: random.Random) -> None:
    if not model.graph.initializer:
        return
    weight = rng.choice(model.graph.initializer)
    match rng.randrange(4):
        case 0 if weight.dims:
            weight.dims[rng.randrange(len(weight.dims))] = rng.choice(NUMBERS)
        case 1:
            weight.data_type = rng.choice((1, 2, 3, 6, 7, 9, 10, 11, 16))
        case _:
            try:
                array = numpy_helper.to_array(weight).copy()
            except Exception:
                return
            if not array.size:
                return
            values = NUMBERS if array.dtype == np.int64 else FLOATS
            array.reshape(-1)[rng.randrange(array.size)] = rng.choice(values)
            if array.dtype == np.int64 and array.ndim == 1 and rng.random() < 0.3:
                array = array[:-1] if rng.random() < 0.5 else np.append(array, array[-1])
            weight.CopyFrom(numpy_helper.from_array(array, weight.name))


def _input(model: ModelProto, rng: random.Random) -> None:
    declared = rng.choice(model.graph.input).type.tensor_type
    dims = declared.shape.dim
    match rng.randrange(4):
        case 0:
            declared.elem_type = rng.choice((1, 2, 3, 6, 7, 9, 10, 11, 16))
        case 1 if dims:
            del dims[rng.randrange(len(dims))]
        case 2 if dims:
            dims[rng.randrange(len(dims))].dim_param = "n"
        case _ if dims:
            dims[rng.randrange(len(dims))].dim_value = rng.choice(NUMBERS)


CHANGES: tuple[Change, ...] = (
    *(_attribute, _drop_attribute, _add_attribute, _operator),
    *(_edge, _node, _weight, _input, _operator, _attribute, _weight),
)


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """Replace, remove or repeat some bytes."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        place, length = rng.randrange(len(changed)), rng.randint(1, 8)
        match rng.randrange(4):
            case 0:
                del changed[place : place + length]
            case 1:
                changed[place:place] = changed[place : place + length]
            case _:
                changed[place] = rng.randrange(256)
    return bytes(changed)


def example(number: int) -> bytes:
    """Return a mutated model, determined by the number."""
    rng = random.Random(number)
    model = rng.choice(MODELS)()
    if rng.random() < 0.2:
        return changed_bytes(model.SerializeToString(), rng)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(CHANGES)(model, rng)
    return model.SerializeToString()


def feeds_of(model: tcopt.Model, rng: np.random.Generator) -> dict[str, np.ndarray] | None:
    """Return values for a model's inputs, including integers of all magnitudes; None if they are
    large."""
    feeds: dict[str, np.ndarray] = {}
    for spec in model.inputs:
        shape = tuple(size if isinstance(size, int) else 2 for size in spec.shape)
        if np.prod(shape, dtype=float) > LARGEST_FEED:
            return None
        if spec.dtype.kind in "iu":
            info = np.iinfo(spec.dtype)
            choices = [v for v in (*range(-6, 7), info.min, info.max) if info.min <= v <= info.max]
            feeds[spec.name] = rng.choice(np.array(choices, spec.dtype), shape)
        else:
            feeds[spec.name] = rng.standard_normal(shape).astype(spec.dtype)
    return feeds


def outcome(data: bytes, number: int) -> str:
    """Return a model's outcome: its results' shapes, or the code of its error.

    Raises:
        Exception: any other error, which is a bug of the compiler.
    """
    try:
        model = tcopt.compile(data, cache=True, workers=0, limits=LIMITS)
        feeds = feeds_of(model, np.random.default_rng(number))
        if feeds is None:
            return "large"
        return str([result.shape for result in model.run(feeds)])
    except TcoptError as error:
        return error.code


def main(seconds: float, seed: int) -> int:
    """Try examples for some time; return the number of faults."""
    place = Path(tempfile.mkdtemp(prefix="tcopt-fuzz-")) / "model.onnx"
    start, number, results, faults = time.monotonic(), seed * 1_000_000, 0, 0
    first = number
    while time.monotonic() - start < seconds:
        data = example(number)
        place.write_bytes(data)  # File that a crash or a hang leaves behind.
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        print(f"example {number}: {place}", file=sys.stderr, flush=True)
        try:
            results += outcome(data, number).startswith("[")
        except Exception:
            faults += 1
            print(f"example {number}:\n{traceback.format_exc()}", flush=True)
        faulthandler.cancel_dump_traceback_later()
        number += 1
    print(f"{number - first} examples, {results} with results, {faults} faults")
    return faults


if __name__ == "__main__":
    faulthandler.enable()
    arguments = sys.argv[1:]
    given_seconds = float(arguments[0]) if arguments else 60.0
    sys.exit(min(main(given_seconds, int(arguments[1]) if arguments[1:] else 0), 1))
