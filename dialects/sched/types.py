"""Types of the sched dialect: handles on blocks and loops of the function being scheduled."""

from __future__ import annotations

from xdsl.ir import ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition


@irdl_attr_definition
class BlockType(ParametrizedAttribute, TypeAttribute):
    """A handle on one `loop.block`."""

    name = "sched.block"


@irdl_attr_definition
class LoopType(ParametrizedAttribute, TypeAttribute):
    """A handle on one `loop.for`."""

    name = "sched.loop"
