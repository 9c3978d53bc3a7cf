"""What xDSL lacks it does lack, and a new version of it is looked at."""

from importlib.metadata import version
from pathlib import Path

import pytest

import tcopt
from tcopt.dialects.upstream import GAPS, XDSL_VERSION, Gap


def test_the_gaps_are_those_of_the_version_in_use() -> None:
    """Another one may have closed some, or need others: see what the tests below say."""
    assert version("xdsl") == XDSL_VERSION


@pytest.mark.parametrize("gap", GAPS, ids=lambda gap: gap.name)
def test_a_gap_is_still_there(gap: Gap) -> None:
    assert (Path(tcopt.__file__).parent / gap.place).exists()
    assert gap.is_open is None or gap.is_open(), (
        f"xDSL closed a gap: {gap.name} {gap.reason}; {gap.place} may be needless"
    )


def test_each_replaced_or_added_op_has_a_gap() -> None:
    from tcopt.dialects import arith_, memref_, vector_

    named = {name for gap in GAPS for name in gap.name.split(", ")}
    ops = {*arith_.REPLACED, memref_.PrefetchOp, *vector_.ADDED}
    conversions = {"arith.index_cast", "arith.index_castui"}
    assert {op.name for op in ops} - conversions <= named
