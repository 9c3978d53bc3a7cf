"""Forms of operators on blocks of channels, which an accelerator computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.support.registries.rule_table import OpFunction

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

on_matrix_unit: OpFunction[[int, int], Offload | str] = OpFunction(
    _FORMS, "it is not a contraction"
)
"""An op for a unit that multiplies a row of `inner` signed bytes by an `inner` x `lanes` matrix and
sums in 32 bits, with zero padding; or the reason why the op has no such form.

The arguments are `inner` and `lanes`.
"""

on_alu_in_blocks: OpFunction[[int], Offload | str | None] = OpFunction(_FORMS, None)
"""An op for an ALU alone, on integers loaded into its registers as signed bytes, a number of
channels at a time; the reason why the op has no such form, or None if it is not a candidate."""
