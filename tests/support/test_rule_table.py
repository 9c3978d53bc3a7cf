"""Tables of rules keyed by op."""

import numpy as np
import pytest
from xdsl.dialects import arith

from tcopt.dialects import graph
from tcopt.support.errors import InputError
from tcopt.support.registries.rule_table import OpFunction, RuleTable


def test_a_rule_serves_all_its_ops_and_no_op_has_two():
    table = RuleTable("tcopt.backends.opencl.ops")

    @table.rule_for(arith.AddfOp, arith.SubfOp)
    def rule(writer: object, op: object) -> None: ...

    expected = r"two definitions of rule of tcopt.backends.opencl.ops for 'arith.subf'"
    with pytest.raises(InputError, match=expected):
        table.rule_for(arith.SubfOp)(rule)
    assert table.rules() == {"arith.addf": rule, "arith.subf": rule}


def test_a_rule_of_a_class_serves_its_subclasses_unless_they_have_their_own():
    kind: OpFunction[[int], str] = OpFunction("tcopt.support.registries.rule_table", "other")

    @kind.rule_for(graph.ElementwiseOp)
    def general(op: object, count: int) -> str:
        return f"elementwise {count}"

    @kind.rule_for(graph.AddOp)
    def special(op: object, count: int) -> str:
        return f"add {count}"

    x = graph.ConstantOp.literal(np.zeros(2, np.float32))
    assert kind(graph.AddOp(x, x), 1) == "add 1"
    assert kind(graph.MulOp(x, x), 2) == "elementwise 2"
    assert kind(x, 3) == "other" and kind.of(x) is None
