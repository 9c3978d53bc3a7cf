"""Our replacements for missing xDSL features are still needed with the installed version."""

from importlib.metadata import version
from pathlib import Path

import pytest
from xdsl.dialects import get_all_dialects

import tcopt
from tcopt.definitions import own_dialects
from tcopt.dialects.upstream import _TRAITS, GAPS, XDSL_VERSION, Gap


def test_the_gaps_are_those_of_the_version_in_use() -> None:
    """A newer version may close gaps or have others: see the messages of the tests below."""
    assert version("xdsl") == XDSL_VERSION


@pytest.mark.parametrize("gap", GAPS, ids=lambda gap: gap.name)
def test_a_gap_is_still_there(gap: Gap) -> None:
    assert (Path(tcopt.__file__).parent / gap.place).exists()
    assert gap.is_open is None or gap.is_open(), (
        f"xDSL closed a gap: {gap.name} {gap.reason}; {gap.place} may be needless"
    )


def own_ops() -> set[str]:
    """Return the names of ops that the package defines in a dialect of xDSL."""
    found: set[str] = set()
    upstream = get_all_dialects().keys()
    for name, factory in own_dialects().items():
        if name in upstream:
            ops = factory().operations
            found |= {op.name for op in ops if op.__module__.startswith("tcopt.")}
    return found


def test_each_replaced_or_added_op_has_a_gap() -> None:
    """Every file's definitions are listed, and every listed op is defined."""
    named = {name for gap in GAPS for name in gap.name.split(", ")}
    assert {"arith.cmpi", "memref.prefetch", "vector.gather"} <= own_ops() <= named
    shadowed = {name for name in named if name.partition(".")[0] in get_all_dialects()}
    assert shadowed <= own_ops() | set(_TRAITS) | {"gpu.shuffle"}


def test_each_module_that_stands_in_for_one_of_xdsl_has_a_gap() -> None:
    root = Path(tcopt.__file__).parent
    places = {gap.place for gap in GAPS}
    for place in ("support/ir/quick_ir.py", "support/ir/rewriting.py", "support/ir/verify.py"):
        assert place in places
    for path in (root / "dialects").glob("*[a-z]_.py"):
        assert f"dialects/{path.name}" in places
    assert all(gap.reason and (root / gap.place).exists() for gap in GAPS)
