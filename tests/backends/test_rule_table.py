"""Tables of rules keyed by op."""

import pytest
from xdsl.dialects import arith

from tcopt.backends.rule_table import RuleTable
from tcopt.support.errors import InputError


def test_a_rule_serves_all_its_ops_and_no_op_has_two():
    table = RuleTable("tcopt.backends.opencl.ops")

    @table.rule_for(arith.AddfOp, arith.SubfOp)
    def rule(writer: object, op: object) -> None: ...

    expected = r"two definitions of rule of tcopt.backends.opencl.ops for 'arith.subf'"
    with pytest.raises(InputError, match=expected):
        table.rule_for(arith.SubfOp)(rule)
    assert table.rules() == {"arith.addf": rule, "arith.subf": rule}
