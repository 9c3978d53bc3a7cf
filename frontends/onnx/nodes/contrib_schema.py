"""Schemas of operators for which the onnx package has none.

They do not constrain element types, which are checked by the ops that a handler builds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import AttributeProto
from xdsl.ir import Attribute

from tcopt.frontends.onnx.context.schemas import AttributeValue, NodeSchema
from tcopt.support.errors import UnsupportedError

REQUIRED = object()
"""Default of a required attribute."""

INT, INTS = AttributeProto.INT, AttributeProto.INTS
FLOAT, FLOATS = AttributeProto.FLOAT, AttributeProto.FLOATS
STRING, STRINGS = AttributeProto.STRING, AttributeProto.STRINGS

Attributes = Mapping[str, tuple[int, Any]]
"""Type and default value of each attribute; the default of an optional attribute may be None."""


@dataclass(frozen=True)
class ContribSchema(NodeSchema):
    """Inputs, outputs and attributes of an operator without a schema in the onnx package.

    Attributes:
        takes_texts: whether operands may be strings; if so, the handler marks string results.
    """

    takes_texts: bool = False

    @property
    def has_body(self) -> bool:
        """Return False, as these operators have no function body."""
        return False

    def check_types(
        self, types: Sequence[Attribute | None], where: str, texts: Sequence[bool] = ()
    ) -> Sequence[bool]:
        """Reject strings unless the operator supports them; other types are not checked."""
        if any(texts) and not self.takes_texts:
            raise UnsupportedError(f"{self.op_type} of strings is not supported", where=where)
        return ()


def contrib_schema(
    op_type: str,
    least: int,
    most: int,
    attributes: Attributes | None = None,
    results: tuple[int, int] = (1, 1),
    *,
    takes_texts: bool = False,
) -> ContribSchema:
    """Return the schema of an operator.

    Args:
        op_type: name of the operator.
        least, most: minimum and maximum number of operands.
        attributes: type and default value of each attribute.
        results: minimum and maximum number of results.
        takes_texts: whether operands may be strings.
    """
    known = attributes or {}
    defaults: dict[str, AttributeValue] = {
        name: value
        for name, (_, value) in known.items()
        if value is not None and value is not REQUIRED
    }
    return ContribSchema(
        op_type,
        (),
        False,
        least,
        most,
        *results,
        {name: int(kind) for name, (kind, _) in known.items()},
        tuple(name for name, (_, value) in known.items() if value is REQUIRED),
        defaults,
        None,
        takes_texts=takes_texts,
    )
