"""Forms of operators on blocks of channels, which an accelerator computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.support.registries.rule_table import RuleTable

LARGEST_PRODUCT = 1 << 14
"""The largest product of two signed bytes."""


OTHER_REGISTERS = 4
"""Registers in addition to those that are reduced: results, and operands combined with them."""


@dataclass(frozen=True)
class Offload:
    """An operator rewritten on blocks of channels for an accelerator.

    Attributes:
        before: ops on the host that prepare the operands, in order.
        body: ops that the accelerator computes.
        after: ops on the host that produce the operator's result: layouts and reshapes.
        products: number of multiplications, padding of blocks included.
        bound: maximum magnitude of the integers in the body's result.
        steps: number of operations of an ALU on elements in registers.
        registers: number of registers, each for the channels of a block, that the smallest tile
            needs.
        channel: dimension of the operator's result that is divided into blocks.
    """

    before: Sequence[GraphOp]
    body: Sequence[GraphOp]
    after: Sequence[GraphOp]
    products: int
    bound: int
    steps: int = 0
    registers: int = 0
    channel: int = 1


_FORMS = f"{__package__}.offloads"

_MATRIX_UNIT: RuleTable[Callable[[Any, int, int], Offload | str]] = RuleTable(_FORMS)
on_matrix_unit = _MATRIX_UNIT.rule_for
"""Register the form of an op for a matrix unit; see `form_on_matrix_unit`."""

_ALU: RuleTable[Callable[[Any, int], Offload | str | None]] = RuleTable(_FORMS)
on_alu_in_blocks = _ALU.rule_for
"""Register the form of an op for an ALU alone; see `form_on_alu`."""


def form_on_matrix_unit(op: GraphOp, inner: int, lanes: int) -> Offload | str:
    """Return an op for a unit that multiplies a row of `inner` signed bytes by an `inner` x `lanes`
    matrix and sums in 32 bits, with zero padding; or the reason why there is no such form."""
    rule = _MATRIX_UNIT.of(op)
    return "it is not a contraction" if rule is None else rule(op, inner, lanes)


def form_on_alu(op: GraphOp, lanes: int) -> Offload | str | None:
    """Return an op for an ALU alone, on integers loaded into its registers as signed bytes, `lanes`
    channels at a time; the reason why there is no such form, or None if the op is not a
    candidate."""
    rule = _ALU.of(op)
    return None if rule is None else rule(op, lanes)
