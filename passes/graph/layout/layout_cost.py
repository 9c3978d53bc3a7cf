"""Choice of layouts that minimises the number of elements moved between layouts.

Each op computes either on blocked channels or on plain data. Ops with only one form are fixed; the
others are assigned by a minimum cut. Moving a value to the other layout costs its number of
elements, once for all users there. Windows cost more on plain data, because vectors along the width
of an image are strided and end at its border.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import prod

from xdsl.ir import Block, Operation, SSAValue

from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import shape_of
from tcopt.support.arithmetic.minimum_cut import UNLIMITED, FlowNetwork
from tcopt.support.arithmetic.sizes import upper_bound

PLAIN_WINDOW = 2
"""Extra cost of one operation of a window on plain data, in units of one moved element."""


def plain_ops(
    body: Block, blocked: Collection[Operation], is_fixed: Callable[[Operation], bool]
) -> set[Operation]:
    """Return the ops that could compute on blocked channels, but are cheaper on plain data.

    Args:
        body: block with the ops on plain data.
        blocked: ops that have a blocked form.
        is_fixed: whether such an op is blocked in any case.
    """
    network = FlowNetwork()

    def node(op: Operation) -> int:
        if op not in blocked:
            return network.sink
        return network.source if is_fixed(op) else network.node(op)

    for op in body.ops:
        if op in blocked and isinstance(op, GraphOp) and not is_fixed(op):
            extra = upper_bound(op.work() - prod(op.shape))
            network.connect(network.source, node(op), PLAIN_WINDOW * extra)
        if not isinstance(op, ConstantOp):
            for value in op.results:
                _connect(network, value, node(op), node)
    for value in body.args:
        _connect(network, value, network.sink, node)
    plain = network.sink_side()
    return {op for op in blocked if not is_fixed(op) and network.node(op) in plain}


def _connect(
    network: FlowNetwork, value: SSAValue, producer: int, node: Callable[[Operation], int]
) -> None:
    """Add the cost of moving a value to its users' layout, if that is not its producer's."""
    users = {node(use.operation) for use in value.uses} - {producer}
    if not users:
        return
    size = upper_bound(prod(shape_of(value)))
    to_plain, to_blocks = network.node((value, "plain")), network.node((value, "blocks"))
    network.connect(producer, to_plain, size)
    network.connect(to_blocks, producer, size)
    for user in users:
        network.connect(to_plain, user, UNLIMITED)
        network.connect(user, to_blocks, UNLIMITED)
