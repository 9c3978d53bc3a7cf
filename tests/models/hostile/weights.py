"""Weights that contradict their declaration."""

from __future__ import annotations

from onnx import TensorProto

from models.hostile.building import (
    FLOAT,
    Models,
    model_of,
    node,
)


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
