"""Networks quantised with onnxruntime's tools, over the range of a few random inputs."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from models.light_models import random_inputs


class _Inputs(CalibrationDataReader):
    def __init__(self, feeds: Sequence[Mapping[str, np.ndarray]]):
        self.feeds = iter(feeds)

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        return next(self.feeds, None)


def quantized(
    model: ModelProto,
    kind: str,
    *,
    signed: bool = False,
    feeds: Sequence[Mapping[str, np.ndarray]] | None = None,
    **options,
) -> ModelProto:
    """Quantise a network to 8 bits.

    Args:
        kind: the form of the integer operators, `QDQ` or `QOperator`, or `dynamic`.
        signed: whether activations are signed; weights always are.
        feeds: calibration inputs; random by default.
        options: options of the quantiser, such as `per_channel`.
    """
    logging.getLogger().setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        source, target = (str(Path(folder) / name) for name in ("real.onnx", "int.onnx"))
        onnx.save(model, source)
        if kind == "dynamic":
            quantize_dynamic(source, target, **options)
        else:
            # Weights of 7 bits: pairs of larger products saturate in onnxruntime on old CPUs.
            quantize_static(
                source,
                target,
                _Inputs(feeds or [random_inputs(model, seed) for seed in range(3)]),
                quant_format=QuantFormat[kind],
                activation_type=QuantType.QInt8 if signed else QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                reduce_range=not signed,
                **options,
            )
        return onnx.load(target)


def output_step(model: ModelProto) -> float:
    """Return the scale of the last dequantisation."""
    *_, last = (node for node in model.graph.node if node.op_type == "DequantizeLinear")
    found = (w for w in model.graph.initializer if w.name == last.input[1])
    return float(numpy_helper.to_array(next(found)))
