"""How operators that the onnx package has no schemas of are described.

Element types are left to the ops that handlers make.
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
"""The default of an attribute that has to be given."""

INT, INTS = AttributeProto.INT, AttributeProto.INTS
FLOAT, FLOATS = AttributeProto.FLOAT, AttributeProto.FLOATS
STRING, STRINGS = AttributeProto.STRING, AttributeProto.STRINGS

Attributes = Mapping[str, tuple[int, Any]]
"""Of each attribute its kind and its default, None where it may be left out without one."""


@dataclass(frozen=True)
class ContribSchema(NodeSchema):
    """What an operator without a schema of ONNX allows.

    Attributes:
        takes_texts: whether operands may be strings; the handler then marks results that are.
    """

    takes_texts: bool = False

    @property
    def has_body(self) -> bool:
        """Nothing else defines it."""
        return False

    def check_types(
        self, types: Sequence[Attribute | None], where: str, texts: Sequence[bool] = ()
    ) -> Sequence[bool]:
        """Nothing is stated of types; few operators take strings."""
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
    """A schema of an operator with one result, or with at least and at most so many."""
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
