"""Faults planted into passes are found, and the right pass is named; `make faults` plants all."""

from __future__ import annotations

import pytest

from faults.planted import FAULTS, Fault
from faults.runs import checked

# One of each kind, at each level; those of the whole network take too long here.
CHOSEN = [fault for fault in FAULTS if fault.network == "small" and "endless" not in fault.title][
    ::2
]


@pytest.mark.parametrize("fault", CHOSEN, ids=lambda fault: f"{fault.culprit}-{fault.title}")
def test_is_found(fault: Fault) -> None:
    outcome = checked(fault.network).plant(fault)
    assert outcome.names(fault.culprit), outcome.message
