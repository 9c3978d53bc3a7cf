"""The form of operators outside of ONNX that models hold: those of onnxruntime's quantiser, and
those that a program brings.

The onnx package has no schemas of them. Element types are left to the ops that handlers make.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from onnx import AttributeProto
from xdsl.ir import Attribute

from tcopt.frontends.onnx.context.schemas import AttributeValue, NodeSchema
from tcopt.support.errors import InputError, UnsupportedError
from tcopt.support.registration import Registry

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
_MICROSOFT_SCHEMAS = {
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


SCHEMAS: Registry[str, ContribSchema] = Registry("schema of operator")
"""Schemas of operators of other domains that a program brings, by domain and name."""

_KINDS: dict[Any, tuple[int, int]] = {
    int: (_INT, _INTS),
    float: (_FLOAT, AttributeProto.FLOATS),
    str: (_STRING, AttributeProto.STRINGS),
}


def register_schema(
    name: str,
    *,
    inputs: tuple[int, int] = (1, 1),
    results: tuple[int, int] = (1, 1),
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """Say what nodes of an operator of another domain may look like.

    Args:
        name: the domain and the operator, as in `my.company.Gate`.
        inputs, results: how many there are at least and at most.
        attributes: defaults by name: a number, a text or a list of these; the type itself, such
            as `float`, or `list[float]`, for one that has to be given.
    Raises:
        InputError: there is a schema already, or a default is of no such type.
    """
    known = {attribute: _attribute(name, value) for attribute, value in (attributes or {}).items()}
    schema = _schema(name.rpartition(".")[2], *inputs, known, results)
    SCHEMAS.add(name, schema)


def _attribute(name: str, value: Any) -> tuple[int, Any]:
    """The kind and the default of an attribute."""
    inner = get_args(value)
    if inner or isinstance(value, type):
        items, default = [], _REQUIRED
        of, many = (inner or (value,))[0], bool(inner)
    else:
        many = isinstance(value, list)
        items: list[Any] = [*value] if many else [value]
        of = type(items[0]) if items else None
        plain = [_plain(item) for item in items]
        default = plain if many else plain[0]
    kinds = _KINDS.get(of)
    if kinds is None or any(type(item) is not of for item in items):
        raise InputError(f"an attribute of {name} cannot be {value!r}")
    return kinds[many], default


def _plain(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def find_contrib_schema(domain: str, op_type: str) -> NodeSchema | None:
    """The schema of an operator of another domain; None where it is not known."""
    given = SCHEMAS.get(f"{domain}.{op_type}")
    if given is not None:
        return given
    return _MICROSOFT_SCHEMAS.get(op_type) if domain == MICROSOFT else None
