"""Small files with a large meaning."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from onnx import numpy_helper

from models.hostile.building import (
    INT64,
    MOST,
    Models,
    ints,
    model_of,
    node,
)
from models.hostile.nesting import functions, loops


def bombs() -> Models:
    big = {"s": ints(2**20, 2**19)}
    total = node("ReduceSum", "h", keepdims=0)
    fill = node("ConstantOfShape", "s", "h", value=numpy_helper.from_array(np.ones(1, np.float32)))
    yield "ConstantOfShape", model_of(fill, total, weights=big)
    yield "ConstantOfShape overflow", model_of(fill, total, weights={"s": ints(2**33, 2**33)})
    yield "ConstantOfShape negative", model_of(fill, total, weights={"s": ints(-1, -1)})
    yield "Expand", model_of(node("Expand", "x s", "h"), total, shape=(1,), weights=big)
    yield "Tile", model_of(node("Tile", "x s", "h"), total, weights=big)
    yield "Tile overflow", model_of(node("Tile", "x s", "h"), total, weights={"s": ints(MOST, 2)})
    yield "Tile negative", model_of(node("Tile", "x s", "h"), total, weights={"s": ints(-1, 2)})
    for pads in ([0, 0, 2**20, 2**19], [MOST] * 4, [-MOST, 0, 0, 0], [0, 0], [-1, -1, -1, -2]):
        yield (
            f"Pad {pads}",
            model_of(node("Pad", "x p", "h"), total, weights={"p": ints(*pads)}),
        )
    reflect = node("Pad", "x p", "h", mode="reflect")
    yield "Pad reflect", model_of(reflect, total, weights={"p": ints(0, 0, 0, 1000)})
    for start, stop, step in ((0, 2**39, 1), (0, MOST, 1), (0, 10, 0), (-MOST, MOST, 1)):
        yield (
            f"Range {start} {stop} {step}",
            model_of(
                node("Range", "a b c", "h"),
                total,
                weights={"a": ints(start)[0], "b": ints(stop)[0], "c": ints(step)[0]},
            ),
        )
    small = np.float32(1e-30)
    yield (
        "Range of small steps",
        model_of(
            node("Range", "a b c", "h"),
            total,
            weights={"a": np.float32(0), "b": np.float32(1), "c": small},
        ),
    )
    yield (
        "OneHot",
        model_of(
            node("Cast", "x", "i", to=INT64),
            node("OneHot", "i d v", "h"),
            total,
            weights={"d": ints(2**39)[0], "v": np.array([0, 1], np.float32)},
        ),
    )
    yield "TopK", model_of(node("TopK", "x k", "h i"), total, weights={"k": ints(2**40)})
    yield "huge input", model_of(node("ReduceSum", "x", keepdims=0), shape=(2**31, 2**31, 2**31))
    yield "large input", model_of(node("Relu"), shape=(2**20, 2**17))
    yield "negative input", model_of(node("Relu"), shape=(-5, 3))
    yield "many dimensions", model_of(node("Relu"), shape=(1,) * 3000)
    yield "Reshape to many", model_of(node("Reshape", "x s"), weights={"s": ints(6, *[1] * 5000)})
    yield "Unsqueeze many", model_of(node("Unsqueeze", "x s"), weights={"s": np.arange(3000)})
    yield (
        "parts of a list",
        model_of(
            node("SplitToSequence", "x", "l", axis=0),
            node("SequenceLength", "l"),
            shape=(2**36, 1),
        ),
    )
    yield (
        "parts of Split",
        model_of(
            node("Split", "x", " ".join(f"y{i}" for i in range(5000)), axis=0),
            outputs="y0",
            shape=(5000, 2),
        ),
    )
    yield "HannWindow", model_of(node("HannWindow", "n", "h"), total, weights={"n": ints(2**39)[0]})
    for repeats, width in ((12, 100),):
        names = ["x", *(f"h{i}" for i in range(repeats))]
        nodes = [node("Concat", " ".join([a] * width), b, axis=0) for a, b in pairwise(names)]
        yield "Concat of Concat", model_of(*nodes, outputs=names[-1])
    yield (
        "outer products",
        model_of(
            node("Unsqueeze", "x a", "c"),
            node("Mul", "x c", "h"),
            total,
            shape=(2**20,),
            weights={"a": ints(1)},
        ),
    )
    yield (
        "pairwise products",
        model_of(
            node("MatMul", "x r", "h"),
            total,
            shape=(2**20, 1),
            weights={"r": np.ones((1, 2**10), np.float32)},
        ),
    )
    yield from loops()
    yield from functions()


def sizes() -> Models:
    """Models that are large but otherwise valid."""
    names = ["x", *(f"h{i}" for i in range(20_000)), "y"]
    yield "long chain", model_of(*[node("Foo", a, b) for a, b in pairwise(names)])
    yield (
        "many weights",
        model_of(node("Foo"), weights={f"w{i}": np.float32(i) for i in range(20_000)}),
    )
