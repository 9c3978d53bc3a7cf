"""One measurement on a GPU: a model, the numbers it computes with, and the way it is compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import ml_dtypes
import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

import tcopt
from gpus.sides import EAGER, OURS
from tcopt.support.accuracy import PRECISE

DTYPES = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "int8": np.dtype(np.int8),
}
_ELEMENTS = {"f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
_BF16_OPSET = 22
"""First opset in which all operators of the cases have bfloat16."""

TOLERANCES = {"f32": 1e-4, "f16": 4e-3, "bf16": 3e-2, "int8": 0.0}
"""Largest accepted difference from the reference, relative to the range of the reference."""

QUANTIZED_TOLERANCE = 5e-2
"""The same for quantised networks, whose roundings to the other step later layers carry on."""


class Numbers(Enum):
    """Way in which a case comes to its type of numbers.

    Attributes:
        STORED: inputs, weights and results of the model have the type.
        ROUNDED: the model is in f32, and the compiler's `precision` rounds the operands of layers.
        QUANTIZED: `tcopt.quantize` makes an int8 model.
        OWN: the model that is built has the type already.
    """

    STORED = "stored"
    ROUNDED = "rounded"
    QUANTIZED = "quantised"
    OWN = "own"


@dataclass(frozen=True)
class Item:
    """A measurement of one case.

    Attributes:
        group: the group of the report.
        name: the case; several items of a group may share it.
        build: makes the ONNX model, in f32 unless `how` is OWN.
        what: a few words for people.
        dtype: f32, f16, bf16 or int8.
        how: how the model comes to that type.
        batch: shown in the report. `build` has it already, but for QUANTIZED, where a model of a
            batch of one is quantised and then widened.
        variant: a key of `gpus.variants.VARIANTS`, or empty for the compiler's defaults.
        peers: other implementations to measure.
    """

    group: str
    name: str
    build: Callable[[], ModelProto]
    what: str
    dtype: str = "f32"
    how: Numbers = Numbers.STORED
    batch: int = 1
    variant: str = ""
    peers: tuple[str, ...] = (EAGER,)

    @property
    def precision(self) -> str:
        """The compiler's option `precision`."""
        return self.dtype if self.how is Numbers.ROUNDED else PRECISE

    @property
    def tolerance(self) -> float:
        return QUANTIZED_TOLERANCE if self.how is Numbers.QUANTIZED else TOLERANCES[self.dtype]

    def key(self, side: str = OURS) -> str:
        """Name of the row of a side of this item."""
        parts = (self.group, self.name, self.dtype, str(self.batch), self.variant, side)
        return "/".join(parts)

    def model(self) -> ModelProto:
        """The model to compile."""
        built = self.build()
        if self.how is Numbers.QUANTIZED:
            small = tcopt.quantize(built, [feeds_of(built)], plan=False, samples=1).model
            return widened(small, self.batch)
        return typed(built, self.dtype) if self.how is Numbers.STORED else built


def widened(model: ModelProto, batch: int) -> ModelProto:
    """A model for another batch, which is the first dimension of inputs and outputs."""
    made = ModelProto()
    made.CopyFrom(model)
    del made.graph.value_info[:]
    for info in (*made.graph.input, *made.graph.output):
        info.type.tensor_type.shape.dim[0].dim_value = batch
    return made


def typed(model: ModelProto, dtype: str) -> ModelProto:
    """The model with another floating-point type instead of f32 everywhere."""
    if dtype not in _ELEMENTS:
        return model
    made, element = ModelProto(), _ELEMENTS[dtype]
    made.CopyFrom(model)
    for info in (*made.graph.input, *made.graph.output):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = element
    for weight in made.graph.initializer:
        if weight.data_type == TensorProto.FLOAT:
            narrow = numpy_helper.to_array(weight).astype(DTYPES[dtype])
            weight.CopyFrom(numpy_helper.from_array(narrow, weight.name))
    for node in made.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                attribute.i = element
    for opset in made.opset_import:
        opset.version = max(opset.version, _BF16_OPSET)
    made.ir_version = max(made.ir_version, 10)
    return made


def feeds_of(model: ModelProto, dtype: str = "f32", seed: int = 0) -> dict[str, np.ndarray]:
    """Seeded inputs of an f32 model: normal floats, tokens, ones for masks, all bytes.

    Args:
        dtype: floats are rounded to it, and stay f32.
    """
    rng = np.random.default_rng(seed)
    weights = {weight.name for weight in model.graph.initializer}
    found: dict[str, np.ndarray] = {}
    for info in model.graph.input:
        if info.name in weights:
            continue
        kind = info.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        if kind.elem_type == TensorProto.FLOAT:
            values = rng.standard_normal(shape, np.float32)
            rounded = values.astype(DTYPES[dtype]) if dtype in _ELEMENTS else values
            found[info.name] = rounded.astype(np.float32)
        elif kind.elem_type == TensorProto.INT64:
            is_mask = "mask" in info.name
            found[info.name] = np.ones(shape, np.int64) if is_mask else _tokens(rng, shape)
        else:
            low, high = (0, 255) if kind.elem_type == TensorProto.UINT8 else (-127, 127)
            element = np.uint8 if kind.elem_type == TensorProto.UINT8 else np.int8
            found[info.name] = rng.integers(low, high + 1, shape).astype(element)
    return found


_VOCABULARY = 1000


def _tokens(rng: np.random.Generator, shape: list[int]) -> np.ndarray:
    return rng.integers(0, _VOCABULARY, shape, dtype=np.int64)
