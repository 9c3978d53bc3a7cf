"""The choice of a layout for ops that have two: the fewest elements moved between layouts.

Each op computes either in blocks of channels or on plain data. What has one form only is
fixed; the others are placed by a minimum cut. It costs a value's elements to move the value to
the other layout, once for all of its users there. Windows on plain data cost more, because
vectors along the width of an image step over elements, and end with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import prod

from xdsl.ir import Block, Operation, SSAValue

from tcopt.dialects.graph.constant import ConstantOp
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.types import shape_of
from tcopt.support.minimum_cut import UNLIMITED, Network

PLAIN_WINDOW = 2
"""What an operation of a window on plain data costs more than in blocks, in elements moved."""


def plain_ops(
    body: Block, blocked: Collection[Operation], is_fixed: Callable[[Operation], bool]
) -> set[Operation]:
    """Those ops that could compute in blocks, but had better not.

    Args:
        body: ops on plain data.
        blocked: ops that can compute in blocks.
        is_fixed: whether one of them does so in any case.
    """
    network = Network()

    def node(op: Operation) -> int:
        if op not in blocked:
            return network.sink
        return network.source if is_fixed(op) else network.node(op)

    for op in body.ops:
        if op in blocked and isinstance(op, GraphOp) and not is_fixed(op):
            extra = op.work() - prod(op.shape)
            network.connect(network.source, node(op), PLAIN_WINDOW * extra)
        if not isinstance(op, ConstantOp):
            for value in op.results:
                _connect(network, value, node(op), node)
    for value in body.args:
        _connect(network, value, network.sink, node)
    plain = network.sink_side()
    return {op for op in blocked if not is_fixed(op) and network.node(op) in plain}


def _connect(
    network: Network, value: SSAValue, producer: int, node: Callable[[Operation], int]
) -> None:
    """Let a cut pay for a value that is wanted in another layout than it is computed in."""
    users = {node(use.operation) for use in value.uses} - {producer}
    if not users:
        return
    size = prod(shape_of(value))
    to_plain, to_blocks = network.node((value, "plain")), network.node((value, "blocks"))
    network.connect(producer, to_plain, size)
    network.connect(to_blocks, producer, size)
    for user in users:
        network.connect(to_plain, user, UNLIMITED)
        network.connect(user, to_blocks, UNLIMITED)
