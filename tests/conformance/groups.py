"""What the suite's cases are about, so that a count tells what kind of models it speaks of."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache

from onnx import ModelProto, TensorProto

COMMON = "common inference"
NARROW = "numbers below 16 bits, and bfloat16"
INTEGERS = "16-bit and unsigned integers"
DYNAMIC = "control flow, and shapes that depend on data"
LISTS = "sequences, optionals and strings"
SIGNALS = "signals, bits, sampling and images"
TRAINING = "training, random numbers and other domains"

GROUPS = (COMMON, NARROW, INTEGERS, DYNAMIC, LISTS, SIGNALS, TRAINING)

_PLAIN_TYPES = ("FLOAT", "FLOAT16", "DOUBLE", "INT8", "UINT8", "INT32", "INT64", "BOOL")
_RARE_TYPES = ("INT16", "UINT16", "UINT32", "UINT64")
_OPERATORS = {
    DYNAMIC: "If Loop Scan NonZero Unique Compress NonMaxSuppression",
    SIGNALS: "DFT STFT MelWeightMatrix HannWindow HammingWindow BlackmanWindow GridSample RoiAlign "
    "DeformConv AffineGrid Col2Im ImageDecoder TfIdfVectorizer BitShift BitwiseAnd BitwiseOr "
    "BitwiseXor BitwiseNot BitCast",
    TRAINING: "Bernoulli RandomUniformLike SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss",
}
_STEMS = {
    TRAINING: ("sce", "nllloss", "bernoulli", "training", "batchnorm_example_training"),
    LISTS: ("sequence_map",),
    DYNAMIC: ("range",),
}


def _types(model: ModelProto) -> set[str]:
    found: set[str] = set()
    for info in (*model.graph.input, *model.graph.output):
        kind = info.type.WhichOneof("value")
        number = info.type.tensor_type.elem_type
        found.add(TensorProto.DataType.Name(number) if kind == "tensor_type" else "LIST")
    return found


def group_of(name: str, model: ModelProto) -> str:
    """The group of a case."""
    types = _types(model)
    if types & {"LIST", "STRING"}:
        return LISTS
    if any(node.domain for node in model.graph.node) or "training" in name:
        return TRAINING
    if types & {"BFLOAT16"} or types - {*_PLAIN_TYPES, *_RARE_TYPES}:
        return NARROW
    operators = {node.op_type for node in model.graph.node}
    stem = name.removeprefix("test_")
    for group in (LISTS, TRAINING, DYNAMIC, SIGNALS):
        if operators & set(_OPERATORS.get(group, "").split()):
            return group
        names = (*_STEMS.get(group, ()), *_OPERATORS.get(group, "").lower().split())
        if stem.endswith("_expanded") and stem.startswith(names):
            return group
    return INTEGERS if types & set(_RARE_TYPES) else COMMON


@cache
def groups() -> Mapping[str, str]:
    """The group of each case by its name; the light and converted networks are common ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case import model, node

        cases = [*node.collect_testcases(None), *model.collect_testcases()]
    return {case.name: group_of(case.name, case.model) for case in cases if case.model is not None}
