"""Tuned choices for operators of the graph."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def
from xdsl.utils.exceptions import VerifyException


@irdl_op_definition
class OperatorOp(IRDLOperation):
    """Choices for all operators with a given hash; see `apply-tuning`.

    `sched.operator "77ab01" {nodes = ["Conv_3"], tuned.choice = {winograd = 4 : i64}}`
    """

    name = "sched.operator"

    operator = prop_def(StringAttr)

    assembly_format = "$operator attr-dict"

    def __init__(self, operator: str, attributes: Mapping[str, Attribute] | None = None):
        super().__init__(
            properties={"operator": StringAttr(operator)}, attributes=dict(attributes or {})
        )

    def verify_(self) -> None:
        if not self.operator.data:
            raise VerifyException("the hash of an operator must not be empty")
