"""Attributes with invalid values, types and forms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

from models.hostile.building import (
    MOST,
    Models,
    ints,
    model_of,
    node,
)

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
    # 99 is not a member of the enumeration; protobuf keeps it as an unknown field.
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
