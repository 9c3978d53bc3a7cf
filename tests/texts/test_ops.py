"""Every op round-trips in both textual forms.

Ops and their attributes are derived from the definitions; a new op needs only a lit test.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, NameLoc, StringAttr, UnknownLoc
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import DiagnosticException

from checks.same_module import difference
from running.examples import examples
from tcopt.support.errors import TcoptError
from tcopt.support.ir.verify import verify
from tcopt.support.registries.plugins import plugins_loaded
from tcopt.tools.passes.driver import PrintOptions, print_module
from texts.samples import own_ops, parse, sample
from texts.strategies import others, property_changes, texts

FORMS = [PrintOptions(generic, locations=True) for generic in (False, True)]
ODD = 'é "x" \\ \n\t\x00 日本'


@pytest.fixture(scope="module", autouse=True)
def described_accelerator() -> Iterator[None]:
    """Accelerator programs belong to an accelerator defined in a file."""
    with plugins_loaded([Path(__file__).parents[2] / "examples" / "tile_accelerator.py"]):
        yield


def check(module: ModuleOp) -> None:
    """Check that the module's texts round-trip."""
    for form in FORMS:
        text = print_module(module, form)
        again = parse(text)
        verify(again)
        assert (found := difference(module, again)) is None, f"{found}\n{text}"
        for op, other in zip(module.walk(), again.walk(), strict=True):
            assert op.location in (other.location, UnknownLoc())
        bare = PrintOptions(form.generic)
        assert print_module(again, bare) == print_module(module, bare)


@pytest.mark.parametrize("name", own_ops())
def test_attributes_and_locations_of_ones_own(name: str) -> None:
    module, op = sample(name)
    for number, each in enumerate(module.walk()):
        each.location = NameLoc(StringAttr(f"{ODD}{number}"), UnknownLoc())
    op.attributes["note"] = StringAttr(ODD)
    op.attributes[ODD] = StringAttr("")
    check(module)


def _is_valid(module: ModuleOp) -> bool:
    try:
        verify(module)
    except (DiagnosticException, TcoptError):
        return False
    return True


def _change(op: Operation, draw: st.DataObject) -> None:
    assert isinstance(op, IRDLOperation)
    for name, value in draw.draw(property_changes(op)).items():
        if value is None:
            op.properties.pop(name, None)
        else:
            op.properties[name] = value


@pytest.mark.nightly
@settings(max_examples=examples(100), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_properties_and_attributes(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(own_ops()))
    module, op = sample(name)
    _change(op, data)
    # An invalid op need not print, but then it must raise an error.
    if not _is_valid(module):
        return
    added = st.dictionaries(texts.filter(bool), others(), max_size=2)
    op.attributes.update({k: v for k, v in data.draw(added).items() if k not in op.properties})
    if _is_valid(module):
        check(module)
