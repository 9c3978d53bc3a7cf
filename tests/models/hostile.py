"""Models that are meant to do harm, or that a broken tool may write.

Each function of `KINDS` gives models by name. A model is a `ModelProto`, its bytes, or a function
that writes it and what belongs to it into a folder, and returns its path.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from models.convolutional import residual_net

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Hostile = ModelProto | bytes | Callable[[Path], Path]
Models = Iterator[tuple[str, Hostile]]
MOST = 2**63 - 1


def node(op: str, inputs: str = "x", outputs: str = "y", **attributes) -> NodeProto:
    """A node, named after its first output."""
    results = outputs.split()
    name = f"n_{results[0]}" if results else "n"
    return helper.make_node(op, inputs.split(), results, name=name, **attributes)


def info(name: str, dims=None, element: int = FLOAT):
    """A declaration of a value."""
    return helper.make_tensor_value_info(name, element, dims)


def model_of(
    *nodes: NodeProto, shape=(2, 3), outputs: str = "y", weights=None, opset: int = 17, **options
) -> ModelProto:
    """A model of one input x; weights are arrays by name."""
    tensors = [
        value if isinstance(value, TensorProto) else numpy_helper.from_array(value, name)
        for name, value in (weights or {}).items()
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs.split()]
    graph = helper.make_graph(list(nodes), "test", [info("x", shape)], results, tensors)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **options)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# Files


def files() -> Models:
    whole = residual_net(16, 4).SerializeToString()
    yield "empty", b""
    yield "text", b"ceci n'est pas un modele"
    yield "zeros", bytes(1000)
    yield "ones", b"\xff" * 1000
    yield "endless varint", b"\x80" * 100_000
    yield "length beyond the end", b"\x3a\xff\xff\xff\xff\x0f" + bytes(10)
    yield "random", np.random.default_rng(0).bytes(4096)
    for part in range(1, 16):
        yield f"cut at {part}/16", whole[: len(whole) * part // 16]
    yield "nested protobuf", _nested_messages(5000)
    yield "name not text", whole.replace(b"Relu", b"\xff\xfe\xfd\xfc")
    yield "twice", whole + whole
    yield "a folder", lambda folder: folder
    yield "a pipe", _pipe
    yield "a link to a device", _device


def _nested_messages(depth: int) -> bytes:
    """Graphs in attributes of nodes of graphs, as bytes that no encoder would write."""
    data = b""
    for tag in [b"\x32", b"\x2a", b"\x0a"] * depth:
        size, length = len(data), b""
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        data = tag + length + bytes([size]) + data
    return b"\x08\x08\x3a" + data[1:]


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.onnx")
    return folder / "pipe.onnx"


def _device(folder: Path) -> Path:
    (folder / "zero.onnx").symlink_to("/dev/zero")
    return folder / "zero.onnx"


# Headers


def headers() -> Models:
    for version in (0, -1, 1, 2, 2**40):
        model = model_of(node("Relu"))
        model.ir_version = version
        yield f"IR version {version}", model
    for opset in (0, -5, 1, 1000, 2**60):
        model = model_of(node("Relu"))
        model.opset_import[0].version = opset
        yield f"opset {opset}", model
    model = model_of(node("Relu"))
    del model.opset_import[:]
    yield "no opset", model
    model = model_of(node("Relu"))
    model.opset_import.append(helper.make_opsetid("ai.onnx", 12))
    yield "two opsets", model
    model = model_of(node("Relu"))
    model.ClearField("graph")
    yield "no graph", model
    yield "no nodes and no outputs", model_of(outputs="")
    model = model_of(node("Relu"))
    model.graph.input[0].ClearField("type")
    yield "input without type", model
    model = model_of(node("Relu"))
    model.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = FLOAT
    yield "input of sequences", model
    model = model_of(node("Relu"))
    model.graph.input[0].type.tensor_type.elem_type = 99
    yield "input of no type", model


# Names and edges


def names() -> Models:
    yield "self loop", model_of(node("Relu", "y"))
    yield "cycle", model_of(node("Relu", "b", "a"), node("Relu", "a", "b"), outputs="a")
    yield "undefined", model_of(node("Relu", "gone"))
    yield "undefined output", model_of(node("Relu"), outputs="z")
    yield "output without name", _with_output(model_of(node("Relu")), "")
    yield "defined twice", model_of(node("Relu"), node("Exp"))
    yield "an input defined again", model_of(node("Relu", "x", "x"), outputs="x")
    yield "a weight defined again", model_of(node("Add", "x w", "w"), weights={"w": ints(1)})
    model = model_of(node("Relu"))
    model.graph.input.append(model.graph.input[0])
    yield "input twice", model
    model = model_of(node("Add", "x w"), weights={"w": np.ones(3, np.float32)})
    model.graph.initializer.append(model.graph.initializer[0])
    yield "weight twice", model
    model.graph.initializer[0].name = ""
    yield "weight without name", model
    model = model_of(node("Relu"))
    model.graph.input[0].name = ""
    yield "input without name", model
    model = model_of(node("Relu"))
    model.graph.output[0].CopyFrom(info("y", [1, 2, 3, 4]))
    yield "output of another rank", model
    for title, text in (
        ("format", "%s%n%x{0}{x!r}%(name)s"),
        ("escapes", "\x1b[2J\x1b]0;owned\x07\r\n\0"),
        ("quotes", '"; } @main () -> () { //'),
        ("directions", "\u202egnp.exe\u200b\U000e0041"),
        ("path", "../../etc/passwd"),
        ("long", "n" * 1_000_000),
    ):
        named = helper.make_node("Relu", [text], ["y"], name=text)
        yield f"undefined name: {title}", model_of(named)
        model = model_of(helper.make_node(text, ["x"], ["y"], name=text))
        yield f"operator name: {title}", model
        model = model_of(
            helper.make_node("Add", ["x", text], [f"{text}h"], name=text),
            helper.make_node("Relu", [f"{text}h"], ["y"], name=f"{text}2"),
            weights={text: np.ones(100, np.float32)},
            shape=(2, 100),
        )
        model.graph.name = text
        yield f"sound but odd name: {title}", model
        yield f"dimension name: {title}", _with_dimension(text)
    for title, text in (
        ("a long number", "n + " + "9" * 5_000),
        ("digits of a script", "n + ١²"),
        ("many", "+".join(f"n{i}" for i in range(100_000))),
        ("nothing", "+" * 1_000),
    ):
        yield f"sum of dimensions: {title}", _with_dimension(text)
    yield "open output without type", model_of(node("Relu"), shape=(2, "n"))


def _with_dimension(name: str) -> ModelProto:
    model = model_of(node("Relu"), shape=(2, name))
    model.graph.output[0].CopyFrom(info("y", [2, name]))
    return model


def _with_output(model: ModelProto, name: str) -> ModelProto:
    model.graph.output[0].name = name
    return model


# Weights


def weights() -> Models:
    for title, fields in (
        ("raw too short", {"raw_data": b"123"}),
        ("raw too long", {"raw_data": bytes(16)}),
        ("raw empty", {"raw_data": b""}),
        ("negative", {"dims": [-3]}),
        ("two negatives", {"dims": [-3, -1]}),
        ("huge", {"dims": [2**40, 2**40]}),
        ("overflow to fit", {"dims": [2**62, 4, 3]}),
        ("huge without data", {"dims": [2**62], "raw_data": None}),
        ("no type", {"data_type": 0}),
        ("unknown type", {"data_type": 77}),
        ("strings", {"data_type": TensorProto.STRING}),
        ("complex", {"data_type": TensorProto.COMPLEX64}),
        ("segment", {"segment": TensorProto.Segment(begin=0, end=2**62)}),
        ("many dims", {"dims": [1] * 5000 + [3]}),
    ):
        given = {"name": "w", "dims": [3], "data_type": FLOAT, "raw_data": bytes(12)} | fields
        given = {key: value for key, value in given.items() if value is not None}
        yield f"weight {title}", model_of(node("Add", "x w"), weights={"w": TensorProto(**given)})
    typed = TensorProto(name="w", dims=[3], data_type=TensorProto.FLOAT16, int32_data=[1, 2**30, 3])
    yield "weight out of range", model_of(node("Add", "x w"), weights={"w": typed})
    other = TensorProto(name="w", dims=[3], data_type=FLOAT, int64_data=[1, 2, 3])
    yield "weight in another field", model_of(node("Add", "x w"), weights={"w": other})
    model = model_of(node("Relu"))
    model.graph.sparse_initializer.add().dims.extend([2**40])
    yield "sparse weight", model


def external_files() -> Models:
    for location in (
        "/etc/passwd",
        "../secret.bin",
        "sub/../../secret.bin",
        "./../secret.bin",
        "..\\secret.bin",
        "",
        ".",
        "sub",
        "a\0b",
        "absent.bin",
        "link.bin",
        "linked/secret.bin",
        "pipe",
        "zero",
        "\x1b[2J%s%n",
        "x" * 100_000,
        "a/" * 50_000,
        "file:///etc/passwd",
        "loop",
    ):
        yield f"external {location[:40]!r}", _external(location)
    for entries in (
        {"offset": "1"},
        {"offset": "-1"},
        {"offset": "9" * 30},
        {"offset": "9" * 10_000},
        {"offset": "0x10"},
        {"offset": "1e3"},
        {"offset": str(2**63)},
        {"length": "0"},
        {"length": "-1"},
        {"length": str(2**70)},
        {"length": "many"},
        {"offset": "8", "length": "256"},
    ):
        title = " ".join(f"{key}={value[:30]}" for key, value in entries.items())
        yield f"external {title}", _external("w.bin", **entries)
    yield "external bomb", _external("w.bin", dims=[2**50])
    yield "external overflow", _external("w.bin", dims=[2**62, 4])


def _external(location: str, dims=(64,), **entries: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        models = folder / "models"
        (models / "sub").mkdir(parents=True)
        data = np.arange(64, dtype=np.float32).tobytes()
        (folder / "secret.bin").write_bytes(data)
        (models / "w.bin").write_bytes(data)
        (models / "link.bin").symlink_to("../secret.bin")
        (models / "linked").symlink_to("..")
        (models / "loop").symlink_to("loop")
        (models / "zero").symlink_to("/dev/zero")
        os.mkfifo(models / "pipe")
        weight = TensorProto(name="w", dims=dims, data_type=FLOAT)
        weight.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **entries}.items():
            weight.external_data.add(key=key, value=value)
        model = model_of(node("Add", "x w"), shape=(64,), weights={"w": weight})
        (models / "m.onnx").write_bytes(model.SerializeToString())
        return models / "m.onnx"

    return write


# Attributes

_IMAGE, _KERNEL = (1, 4, 8, 8), np.ones((4, 4, 3, 3), np.float32)


def attributes() -> Models:
    for title, given in (
        ("no groups", {"group": 0}),
        ("negative groups", {"group": -4}),
        ("huge groups", {"group": 2**62}),
        ("three groups", {"group": 3}),
        ("no stride", {"strides": [0, 1]}),
        ("negative stride", {"strides": [-1, -1]}),
        ("one stride", {"strides": [1]}),
        ("no dilation", {"dilations": [0, 0]}),
        ("huge dilation", {"dilations": [MOST, MOST]}),
        ("negative pads", {"pads": [-9, -9, -9, -9]}),
        ("huge pads", {"pads": [2**40, 0, 0, 0]}),
        ("least pads", {"pads": [-MOST - 1] * 4}),
        ("other kernel", {"kernel_shape": [5, 5]}),
        ("zero kernel", {"kernel_shape": [0, 0]}),
        ("auto pad", {"auto_pad": "SIDEWAYS"}),
    ):
        yield (
            f"Conv {title}",
            model_of(node("Conv", "x w", **given), shape=_IMAGE, weights={"w": _KERNEL}),
        )
        if title not in ("three groups",):
            yield (
                f"ConvTranspose {title}",
                model_of(
                    node("ConvTranspose", "x w", **given), shape=_IMAGE, weights={"w": _KERNEL}
                ),
            )
        if "group" not in given:
            pool = {"kernel_shape": [3, 3]} | given
            for op in ("MaxPool", "AveragePool"):
                yield f"{op} {title}", model_of(node(op, **pool), shape=_IMAGE)
    for given in (
        {"output_padding": [2**40, 0]},
        {"output_shape": [2**40, 2**40]},
        {"output_shape": [-1, -1]},
    ):
        deconv = node("ConvTranspose", "x w", **given)
        yield f"ConvTranspose {given}", model_of(deconv, shape=_IMAGE, weights={"w": _KERNEL})
    for op, given in (
        ("Softmax", {"axis": MOST}),
        ("Softmax", {"axis": -MOST - 1}),
        ("Flatten", {"axis": MOST}),
        ("Concat", {"axis": 9}),
        ("Transpose", {"perm": [0, 0]}),
        ("Transpose", {"perm": [0, 9]}),
        ("Transpose", {"perm": [0]}),
        ("ArgMax", {"axis": -9}),
        ("Gather", {"axis": 7}),
        ("Cast", {"to": -1}),
        ("Cast", {"to": MOST}),
        ("Cast", {"to": TensorProto.STRING}),
        ("LRN", {"size": 0}),
        ("LRN", {"size": MOST}),
        ("LRN", {"size": -3}),
        ("DepthToSpace", {"blocksize": 0}),
        ("DepthToSpace", {"blocksize": MOST}),
        ("DepthToSpace", {"blocksize": -2}),
        ("SpaceToDepth", {"blocksize": 0}),
        ("LpPool", {"kernel_shape": [2, 2], "p": 0}),
        ("LpNormalization", {"p": 99}),
        ("Einsum", {"equation": "ij"}),
        ("Einsum", {"equation": "->->"}),
        ("Einsum", {"equation": "a" * 5000}),
        ("Einsum", {"equation": "\x00%s"}),
        ("EyeLike", {"k": MOST, "dtype": 1}),
        ("HardSigmoid", {"alpha": float("nan")}),
        ("LeakyRelu", {"alpha": float("inf")}),
        ("Elu", {"alpha": float("nan")}),
        ("Selu", {"gamma": float("-inf")}),
        ("ThresholdedRelu", {"alpha": float("nan")}),
        ("Shrink", {"lambd": float("nan"), "bias": float("inf")}),
        ("LpNormalization", {"axis": 0, "p": 2}),
        ("GlobalLpPool", {"p": -1}),
        ("Split", {"axis": 0}),
        ("Relu", {"axis": 1}),
        ("Mod", {"fmod": 7}),
    ):
        rank4 = op in ("LRN", "DepthToSpace", "SpaceToDepth", "LpPool", "GlobalLpPool")
        inputs = "x x" if op in ("Concat", "Gather", "Mod") else "x"
        title = " ".join(f"{key}={str(value)[:20]}" for key, value in given.items())
        yield (
            f"{op} {title}",
            model_of(node(op, inputs, **given), shape=(1, 4, 4, 4) if rank4 else (2, 3)),
        )
    yield from _wrong_forms()
    yield from _recurrent()
    yield from _resizes()


def _wrong_forms() -> Models:
    def with_attribute(change: Callable[[AttributeProto], None]) -> ModelProto:
        flatten = node("Flatten", axis=1)
        change(flatten.attribute[0])
        return model_of(flatten)

    yield "attribute without type", with_attribute(lambda a: a.ClearField("type"))
    yield "attribute of type 99", with_attribute(lambda a: _set_type(a))
    yield "attribute without value", with_attribute(lambda a: a.ClearField("i"))
    yield "attribute of a function", with_attribute(lambda a: setattr(a, "ref_attr_name", "k"))
    yield "attribute without name", with_attribute(lambda a: setattr(a, "name", ""))
    twice = node("Flatten", axis=1)
    twice.attribute.append(twice.attribute[0])
    yield "attribute twice", model_of(twice)
    yield "operator without name", model_of(node(""))
    yield "no outputs", model_of(node("Relu", "x", ""), outputs="x")
    yield "too many outputs", model_of(node("Relu", "x", "y z w"))
    yield "too many inputs", model_of(node("Relu", " ".join("x" * 1000)))
    yield "no inputs", model_of(node("Add", ""))
    yield "inputs left out", model_of(helper.make_node("Add", ["", ""], ["y"]))
    yield "If without branches", model_of(node("If", "c"), weights={"c": np.array(True)})
    yield "Loop without body", model_of(node("Loop", "n c x"), weights={"n": ints(3)[0]})
    yield "Scan without body", model_of(node("Scan", "x", num_scan_inputs=1))
    yield "Constant of nothing", model_of(helper.make_node("Constant", [], ["y"]))
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.ones(1, np.float32), "v"),
        numpy_helper.from_array(ints(2**40), "i"),
        [2**41],
    )
    yield "sparse Constant", model_of(helper.make_node("Constant", [], ["y"], sparse_value=sparse))


def _set_type(attribute: AttributeProto) -> None:
    # 99 is no member of the enumeration; protobuf keeps it as an unknown field.
    attribute.ClearField("type")
    attribute.MergeFromString(b"\xa0\x01\x63")


def _recurrent() -> Models:
    arrays = {
        "w": np.ones((1, 8, 3), np.float32),
        "r": np.ones((1, 8, 2), np.float32),
    }
    for given in (
        {"hidden_size": 0},
        {"hidden_size": -2},
        {"hidden_size": MOST},
        {"hidden_size": 2, "direction": "sideways"},
        {"hidden_size": 2, "activations": ["Tan", "Nope", ""]},
        {"hidden_size": 2, "activations": ["Tanh"] * 1000},
        {"hidden_size": 2, "clip": float("nan")},
        {"hidden_size": 2, "layout": 9},
    ):
        title = " ".join(f"{key}={str(value)[:20]}" for key, value in given.items())
        yield (
            f"LSTM {title}",
            model_of(node("LSTM", "x w r", "y", **given), shape=(4, 1, 3), weights=arrays),
        )


def _resizes() -> Models:
    for scales in (
        [float("nan")] * 4,
        [float("inf")] * 4,
        [0.0] * 4,
        [-1.0] * 4,
        [1.0, 1.0, 1e9, 1e9],
        [1.0],
    ):
        yield (
            f"Resize scales {scales}",
            model_of(
                helper.make_node("Resize", ["x", "", "s"], ["y"]),
                shape=(1, 1, 4, 4),
                weights={"s": np.array(scales, np.float32)},
            ),
        )
    for sizes in ([1, 1, MOST, 4], [1, 1, -4, 4], [1, 1, 0, 4], [1, 1, 2**20, 2**20], []):
        yield (
            f"Resize sizes {sizes}",
            model_of(
                helper.make_node("Resize", ["x", "", "", "s"], ["y"]),
                shape=(1, 1, 4, 4),
                weights={"s": ints(*sizes)},
            ),
        )


# Bombs: small files that describe much


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
    yield from _loops()
    yield from _functions()


def _loop(body_nodes, count: int) -> ModelProto:
    body = helper.make_graph(
        list(body_nodes),
        "body",
        [info("i", [], INT64), info("c_in", [], BOOL), info("v_in")],
        [info("c_in", [], BOOL), helper.make_empty_tensor_value_info("v_out")],
    )
    return model_of(
        helper.make_node("Loop", ["n", "", "x"], ["y"], name="loop", body=body),
        weights={"n": np.array(count, np.int64)},
    )


def _loops() -> Models:
    step = node("Relu", "v_in", "v_out")
    for count in (2**40, MOST, -1, 0):
        yield f"Loop of {count} steps", _loop([step], count)
    yield "Loop that doubles", _loop([node("Concat", "v_in v_in", "v_out", axis=0)], 60)
    no_end = _loop([step], 1)
    no_end.graph.node[0].input[0] = ""
    yield "Loop without end", no_end
    inner = helper.make_graph(
        [node("Relu", "w_in", "w_out")],
        "inner",
        [info("j", [], INT64), info("d_in", [], BOOL), info("w_in")],
        [info("d_in", [], BOOL), helper.make_empty_tensor_value_info("w_out")],
    )
    bodies = inner
    for level in range(6):
        bodies = helper.make_graph(
            [
                helper.make_node(
                    "Loop", ["n", "", f"w{level}"], [f"o{level}"], name="l", body=bodies
                )
            ],
            "outer",
            [info(f"j{level}", [], INT64), info(f"d{level}", [], BOOL), info(f"w{level}")],
            [info(f"d{level}", [], BOOL), helper.make_empty_tensor_value_info(f"o{level}")],
        )
    yield (
        "Loops in Loops",
        model_of(
            helper.make_node("Loop", ["n", "", "x"], ["y"], body=bodies),
            weights={"n": np.array(16, np.int64)},
        ),
    )
    yield "Ifs in Ifs", _nested_ifs(8)
    yield "deep Ifs", _nested_ifs(30, both=False)


def _nested_ifs(depth: int, *, both: bool = True) -> ModelProto:
    """Branches that hold two Ifs each: 2^depth nodes, were they not shared in memory."""
    flag = [node("ReduceMax", "x", "m", keepdims=0), node("Cast", "m", "flag", to=BOOL)]
    relu = helper.make_graph(
        [node("Relu", "x", "b")], "leaf", [], [helper.make_empty_tensor_value_info("b")]
    )
    graph = relu
    for _ in range(depth):
        branch = helper.make_node(
            "If", ["flag"], ["b"], then_branch=graph, else_branch=graph if both else relu
        )
        graph = helper.make_graph(
            [branch], "branch", [], [helper.make_empty_tensor_value_info("b")]
        )
    return model_of(
        *flag, helper.make_node("If", ["flag"], ["y"], then_branch=graph, else_branch=relu)
    )


def _function(name: str, nodes, inputs=("a",), outputs=("c",)):
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    return helper.make_function("f", name, list(inputs), list(outputs), list(nodes), opsets)


def _call(name: str, source: str, target: str, domain: str = "f") -> NodeProto:
    return helper.make_node(name, [source], [target], domain=domain, name=f"call_{target}")


def _functions() -> Models:
    start = _call("F", "x", "y")
    yield "function of itself", model_of(start, functions=[_function("F", [_call("F", "a", "c")])])
    yield (
        "functions of each other",
        model_of(
            start,
            functions=[
                _function("F", [_call("G", "a", "c")]),
                _function("G", [_call("F", "a", "c")]),
            ],
        ),
    )
    steps = ["a", *(f"v{i}" for i in range(99)), "c"]
    levels = [_function("F0", [node("Relu", p, q) for p, q in pairwise(steps)])]
    for level in range(1, 9):
        calls = [_call(f"F{level - 1}", p, q) for p, q in pairwise(steps)]
        levels.append(_function(f"F{level}", calls))
    yield "function bomb", model_of(_call("F8", "x", "y"), functions=levels)
    chain = [_function("F0", [node("Relu", "a", "c")])]
    chain += [_function(f"F{i}", [_call(f"F{i - 1}", "a", "c")]) for i in range(1, 500)]
    yield "deep functions", model_of(_call("F499", "x", "y"), functions=chain)
    yield "function twice", model_of(start, functions=[chain[0], chain[0]])
    yield (
        "function without output",
        model_of(start, functions=[_function("F", [node("Relu", "a", "b")])]),
    )
    yield (
        "function of one name twice",
        model_of(start, functions=[_function("F", [node("Relu", "a", "c")], inputs=("a", "a"))]),
    )
    yield (
        "function with a cycle",
        model_of(
            start, functions=[_function("F", [node("Relu", "b", "c"), node("Relu", "c", "b")])]
        ),
    )
    own = _function("Relu", [node("Relu", "a", "c")])
    own.domain = ""
    yield "function of a standard name", model_of(node("Relu"), functions=[own])
    old = _function("F", [node("Relu", "a", "c")])
    old.opset_import[0].version = 2**40
    yield "function of a far opset", model_of(start, functions=[old])


def sizes() -> Models:
    """Models that are large, and nothing else."""
    names = ["x", *(f"h{i}" for i in range(20_000)), "y"]
    yield "long chain", model_of(*[node("Foo", a, b) for a, b in pairwise(names)])
    yield (
        "many weights",
        model_of(node("Foo"), weights={f"w{i}": np.float32(i) for i in range(20_000)}),
    )


KINDS = (files, headers, names, weights, external_files, attributes, bombs, sizes)
