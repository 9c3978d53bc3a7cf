"""The form of QONNX's operators, by which networks of few bits are exported."""

from __future__ import annotations

from tcopt.frontends.onnx.nodes.contrib_schema import (
    INT,
    STRING,
    ContribSchema,
    contrib_schema,
)

DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas")
"""Where they are: QONNX's own domain, and that of exporters before there was one."""

_QUANT = contrib_schema(
    "Quant",
    4,
    4,
    {"signed": (INT, 1), "narrow": (INT, 0), "rounding_mode": (STRING, b"ROUND")},
)
_SCHEMAS = {
    "Quant": _QUANT,
    "IntQuant": _QUANT,
    "BipolarQuant": contrib_schema("BipolarQuant", 2, 2),
}


def find_qonnx_schema(domain: str, op_type: str) -> ContribSchema | None:
    """The schema of one of QONNX's operators; None for others."""
    return _SCHEMAS.get(op_type) if domain in DOMAINS else None
