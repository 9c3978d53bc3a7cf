"""Target device as plain values; the counterpart of its attribute outside of IR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceTarget:
    """Device that kernels were compiled for; see `dialects.target.TargetFacts`.

    Attributes:
        kind: name of the kind of target, such as `cuda`.
        facts: parameters of the attribute by name.
        max_threads: maximum number of threads of a block.
    """

    kind: str
    facts: Mapping[str, str | int]
    max_threads: int
