"""Planted faults are found and attributed; `make faults` plants all of them."""

from __future__ import annotations

import pytest

from faults.planted_sources import SOURCE_FAULTS
from faults.sources import SourceFault, message_of, planted, planted_function

CHOSEN = [
    next(fault for fault in SOURCE_FAULTS if fault.culprit == culprit)
    for culprit in ("'sched.split'", "the LLVM emitter", "the PTX emitter")
]


@pytest.mark.parametrize("fault", SOURCE_FAULTS, ids=lambda fault: fault.title)
def test_applies_to_the_source(fault: SourceFault) -> None:
    """The function exists, contains the replaced text, and has its code again afterwards."""
    function = planted_function(fault)
    right = function.__code__
    with planted(fault):
        assert function.__code__ != right
    assert function.__code__ is right


@pytest.mark.parametrize("fault", CHOSEN, ids=lambda fault: fault.title)
def test_is_found(fault: SourceFault) -> None:
    """The clean program passes, and the fault's message names the culprit."""
    assert not message_of(fault)
    with planted(fault):
        assert fault.culprit in message_of(fault)
