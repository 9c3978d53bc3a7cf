"""Tables of rules keyed by op."""

import numpy as np
import pytest
from xdsl.dialects import arith

from tcopt.dialects import graph
from tcopt.support.errors import InputError
from tcopt.support.registries.rule_table import RuleTable


def test_a_rule_serves_all_its_ops_and_no_op_has_two():
    table = RuleTable("tcopt.backends.opencl.ops")

    @table.rule_for(arith.AddfOp, arith.SubfOp)
    def rule(writer: object, op: object) -> None: ...

    expected = r"two definitions of rule of tcopt.backends.opencl.ops for 'arith.subf'"
    with pytest.raises(InputError, match=expected):
        table.rule_for(arith.SubfOp)(rule)
    assert table.rules() == {"arith.addf": rule, "arith.subf": rule}


def test_a_rule_of_a_class_serves_its_subclasses_unless_they_have_their_own():
    table = RuleTable("tcopt.support.registries.rule_table")

    @table.rule_for(graph.ElementwiseOp)
    def general(op: object) -> str:
        return "elementwise"

    @table.rule_for(graph.AddOp)
    def special(op: object) -> str:
        return "add"

    x = graph.ConstantOp.literal(np.zeros(2, np.float32))
    assert table.of(graph.AddOp(x, x)) is special
    assert table.of(graph.MulOp(x, x)) is general
    assert table.of(x) is None
