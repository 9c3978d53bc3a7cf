"""The form of operators outside of ONNX that models hold: those of onnxruntime's quantiser.

The onnx package has no schemas of them. Element types are left to the ops that handlers make.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import AttributeProto
from xdsl.ir import Attribute

from tcopt.frontends.onnx.schemas import AttributeValue, NodeSchema
from tcopt.support.errors import UnsupportedError

MICROSOFT = "com.microsoft"


class ContribSchema(NodeSchema):
    """What an operator without a schema of ONNX allows."""

    @property
    def has_body(self) -> bool:
        """Nothing else defines it."""
        return False

    def check_types(
        self, types: Sequence[Attribute | None], where: str, texts: Sequence[bool] = ()
    ) -> Sequence[bool]:
        """Nothing is stated of types; none of them is strings."""
        if any(texts):
            raise UnsupportedError(f"{self.op_type} of strings is not supported", where=where)
        return ()


_REQUIRED = object()
_INT, _INTS = AttributeProto.INT, AttributeProto.INTS
_FLOAT, _STRING = AttributeProto.FLOAT, AttributeProto.STRING
_WINDOW: dict[str, tuple[int, Any]] = {
    "auto_pad": (_STRING, b"NOTSET"),
    "kernel_shape": (_INTS, None),
    "pads": (_INTS, None),
    "strides": (_INTS, None),
}
_LAST = {"channels_last": (_INT, 0)}
_LSTM: dict[str, tuple[int, Any]] = {
    "activation_alpha": (AttributeProto.FLOATS, None),
    "activation_beta": (AttributeProto.FLOATS, None),
    "activations": (AttributeProto.STRINGS, None),
    "clip": (_FLOAT, None),
    "direction": (_STRING, b"forward"),
    "hidden_size": (_INT, None),
    "input_forget": (_INT, 0),
}


def _schema(
    op_type: str,
    least: int,
    most: int,
    attributes: Mapping[str, tuple[int, Any]] | None = None,
    results: tuple[int, int] = (1, 1),
) -> ContribSchema:
    """A schema of an operator with one result, or with at least and at most so many."""
    known = attributes or {}
    defaults: dict[str, AttributeValue] = {
        name: value
        for name, (_, value) in known.items()
        if value is not None and value is not _REQUIRED
    }
    return ContribSchema(
        op_type,
        (),
        False,
        least,
        most,
        *results,
        {name: int(kind) for name, (kind, _) in known.items()},
        tuple(name for name, (_, value) in known.items() if value is _REQUIRED),
        defaults,
        None,
    )


_MANY = 1 << 30
_SCHEMAS = {
    schema.op_type: schema
    for schema in (
        _schema("QuantizeLinear", 2, 3, {"axis": (_INT, 1), "block_size": (_INT, 0)}),
        _schema("DequantizeLinear", 2, 3, {"axis": (_INT, 1), "block_size": (_INT, 0)}),
        _schema("QLinearAdd", 7, 8),
        _schema("QLinearMul", 7, 8),
        _schema("QLinearWhere", 9, 9),
        _schema("QLinearSigmoid", 4, 5),
        _schema("QLinearLeakyRelu", 4, 5, {"alpha": (_FLOAT, 0.01)}),
        _schema("QLinearGlobalAveragePool", 4, 5, _LAST),
        _schema(
            "QLinearAveragePool",
            4,
            5,
            {**_WINDOW, **_LAST, "ceil_mode": (_INT, 0), "count_include_pad": (_INT, 0)},
        ),
        _schema("QLinearSoftmax", 4, 5, {"axis": (_INT, -1), "opset": (_INT, _REQUIRED)}),
        _schema("QLinearConcat", 5, _MANY, {"axis": (_INT, _REQUIRED)}),
        _schema(
            "QLinearConv",
            8,
            9,
            {**_WINDOW, **_LAST, "dilations": (_INTS, None), "group": (_INT, 1)},
        ),
        _schema("QGemm", 6, 9, {"alpha": (_FLOAT, 1.0), "transA": (_INT, 0), "transB": (_INT, 0)}),
        _schema("DynamicQuantizeMatMul", 3, 5),
        _schema("DynamicQuantizeLSTM", 12, 12, _LSTM, (0, 3)),
        _schema("MatMulIntegerToFloat", 4, 7),
    )
}


def find_contrib_schema(domain: str, op_type: str) -> NodeSchema | None:
    """The schema of an operator of another domain; None where it is not known."""
    return _SCHEMAS.get(op_type) if domain == MICROSOFT else None
