"""The facts that GPU rules get: the thread blocks of their target."""

from __future__ import annotations

from xdsl.ir import Attribute

from tcopt.dialects.target import TargetFacts
from tcopt.schedules.rules.rule import target_facts
from tcopt.support.errors import UnsupportedError
from tcopt.support.machines.thread_blocks import ThreadBlocks


@target_facts("gpu")
def gpu_facts(target: Attribute | None) -> ThreadBlocks:
    """Return the facts passed to GPU rules for a target."""
    blocks = target.threads if isinstance(target, TargetFacts) else None
    if blocks is None:
        raise UnsupportedError(
            f"rules for blocks of threads do not suit {target}",
            hint="its attribute should answer `threads`, or name other `rules`",
        )
    return blocks
