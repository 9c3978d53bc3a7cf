"""Forms of operators on channels in blocks, by class of op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.attributes import ints
from tcopt.dialects.graph.col2im import Col2ImOp
from tcopt.dialects.graph.elementwise import ElementwiseOp
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.interleave import InterleaveOp
from tcopt.dialects.graph.lrn import LrnOp
from tcopt.dialects.graph.pool import PoolOp
from tcopt.dialects.graph.reduce import ReduceOp
from tcopt.dialects.graph.slice import ConcatOp
from tcopt.dialects.graph.sum_taps import SumTapsOp
from tcopt.dialects.graph.types import broadcast_shapes, shape_of, tensor
from tcopt.dialects.graph.windows import window_properties
from tcopt.support.registries.rule_table import RuleTable

_CONTRACTED: RuleTable[Callable[[Any, Any], GraphOp | None]] = RuleTable(
    f"{__package__}.conv_in_blocks"
)
contracts_in_blocks = _CONTRACTED.rule_for
"""Register a function that returns an op, the first argument, that contracts channels and computes
its result in blocks of `BlockLayouts.block_of` channels, not yet inserted; None if the op should
compute on plain data. Such ops compute in blocks regardless of the layout of their operands."""

_Form = Callable[[Any, Sequence[SSAValue], int], GraphOp | None]
_IN_BLOCKS: RuleTable[_Form] = RuleTable(__name__)
computes_in_blocks = _IN_BLOCKS.rule_for
"""Register the form of an op on data in blocks; see `form_in_blocks`."""

_STAYS_PLAIN: RuleTable[Callable[[Any, int], bool]] = RuleTable(__name__)
may_stay_plain = _STAYS_PLAIN.rule_for
"""Register a function that returns whether an op is known to have no form in blocks of a number of
channels."""


def contraction_in_blocks(op: GraphOp) -> Callable[[Any, Any], GraphOp | None] | None:
    """Return the rule that contracts the channels of an op in blocks; None for other ops."""
    return _CONTRACTED.of(op)


def contracts(op: Operation) -> bool:
    """Whether an op contracts channels in blocks of them."""
    return isinstance(op, GraphOp) and contraction_in_blocks(op) is not None


def form_in_blocks(op: GraphOp, operands: Sequence[SSAValue], block: int) -> GraphOp | None:
    """Return an op on data whose channels are in blocks, or None if it has no such form.

    Args:
        operands: the operands. Those of the op's own rank are [N, C / block, ..., block], operands
            of lower rank broadcast against that.
        block: channels in a block.
    """
    rule = _IN_BLOCKS.of(op)
    return None if rule is None else rule(op, operands, block)


def is_plain_in_blocks_of(op: GraphOp, block: int) -> bool:
    """Whether an op is known to have no form in blocks of `block` channels."""
    rule = _STAYS_PLAIN.of(op)
    return rule is not None and rule(op, block)


@computes_in_blocks(ElementwiseOp)
def _elementwise(op: ElementwiseOp, operands: Sequence[SSAValue], block: int) -> GraphOp:
    """Return the same op, as elements keep their relative positions."""
    return op.with_operands(operands, broadcast_shapes(*map(shape_of, operands)))


@computes_in_blocks(PoolOp)
def _pool(op: PoolOp, operands: Sequence[SSAValue], block: int) -> GraphOp:
    """Return the op with the block as an additional spatial dimension of window extent 1."""
    window, shape = op.window, op.shape
    pads = [*window.low, 0, *window.high, 0]
    widened = {
        "kernel": ints([*window.kernel, 1]),
        **window_properties([*window.strides, 1], pads, [*window.dilations, 1]),
    }
    properties = {k: v for k, v in {**op.properties, **widened}.items() if v is not None}
    result = tensor((shape[0], -(-shape[1] // block), *shape[2:], block), op.type.element_type)
    return PoolOp.create(operands=operands, properties=properties, result_types=[result])


@computes_in_blocks(ReduceOp)
def _reduce(op: ReduceOp, operands: Sequence[SSAValue], block: int) -> GraphOp | None:
    """Return the op on blocks, for reductions over spatial dimensions that are kept as 1."""
    axes = op.axes.get_values()
    if op.keepdims is None or not all(axis >= 2 for axis in axes):
        return None
    return ReduceOp(operands[0], kind=op.kind.data.value, axes=axes, keepdims=True)


@computes_in_blocks(ConcatOp)
def _concat(op: ConcatOp, operands: Sequence[SSAValue], block: int) -> GraphOp:
    """Return the op on blocks, along any axis: channels too, as they are whole blocks."""
    return ConcatOp(list(operands), axis=op.axis.value.data)


@computes_in_blocks(LrnOp)
def _lrn(op: LrnOp, operands: Sequence[SSAValue], block: int) -> GraphOp | None:
    """Return the op on blocks, if no window extends to a lane after the last channel, or beyond the
    adjacent blocks."""
    if op.blocked is not None or op.shape[1] % block or max(op.reach) > block:
        return None
    return LrnOp(
        operands[0],
        size=op.size.value.data,
        alpha=op.alpha.value.data,
        beta=op.beta.value.data,
        bias=op.bias.value.data,
        blocked=True,
    )


@computes_in_blocks(InterleaveOp)
def _interleave(op: InterleaveOp, operands: Sequence[SSAValue], block: int) -> GraphOp | None:
    """Return the op on blocks, if phases are whole blocks."""
    if _is_not_whole_blocks(op, block):
        return None
    return InterleaveOp(
        operands[0],
        strides=op.strides.get_values(),
        starts=op.starts.get_values(),
        output=op.output.get_values(),
        kept=op.kept_phases,
    )


@may_stay_plain(InterleaveOp)
def _is_not_whole_blocks(op: InterleaveOp, block: int) -> bool:
    return op.shape[1] % block > 0 or op.groups.value.data > 1


@may_stay_plain(SumTapsOp, Col2ImOp)
def _is_along_the_image(op: Operation, block: int) -> bool:
    # Vectors hold pixels, as there are too few channels to fill them.
    return True
