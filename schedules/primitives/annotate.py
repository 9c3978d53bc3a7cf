"""annotate: set an attribute that later passes read, on a block or loop."""

from __future__ import annotations

from xdsl.ir import Attribute

from tcopt.dialects.loop import BlockOp, ForOp
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import State


def annotate(state: State, target: BlockOp | ForOp, key: str, value: Attribute) -> None:
    """Set an attribute on a block or loop.

        loop.for %k = 0 to 64 {    ->    loop.for %k = 0 to 64 attributes {pragma = "nounroll"} {

    Args:
        target: a block or a loop.
        key: name of the attribute; must not be one of the op's properties.
        value: the attribute.
    Raises:
        ScheduleError: the op has a property of this name.
    """
    if not key or key in type(target).get_irdl_definition().properties:
        raise illegal("annotate", "key", f"'{key}' is a property of {target.name}")
    target.attributes[key] = value
