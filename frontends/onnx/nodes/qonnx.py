"""Schemas of QONNX's operators, which are used to export networks with few bits."""

from __future__ import annotations

from tcopt.frontends.onnx.nodes.contrib_schema import (
    INT,
    STRING,
    ContribSchema,
    contrib_schema,
)

DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas")
"""Domains of the operators: QONNX's own, and that of earlier exporters."""

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
    """Return the schema of a QONNX operator; None for other operators."""
    return _SCHEMAS.get(op_type) if domain in DOMAINS else None
