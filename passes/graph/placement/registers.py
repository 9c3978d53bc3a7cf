"""Integers in registers of an ALU, and the table of operators on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.ir import SSAValue

from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import Array
from tcopt.support.registries.rule_table import OpFunction


@dataclass(frozen=True)
class Reals:
    """Real values that are a non-decreasing function of integers in registers.

    Attributes:
        terms: the integers.
        function: maps an array of integers for each term, with channels as the last dimension, to
            exactly the values that the operators compute.
        slopes: approximate increase of the function per unit of each term, by channel.
    """

    terms: tuple[Registers, ...]
    function: Callable[..., Array]
    slopes: tuple[Array, ...]


@dataclass(frozen=True)
class Registers:
    """32-bit integers in registers of an ALU, on blocks of channels.

    Attributes:
        value: contents of the registers.
        offset: pending addend: a scalar, or one value for each channel.
        limits: pending minimum and maximum, applied after the offset.
        bound: maximum magnitude of the integers.
        reals: the real values that the integers represent, until they are requantised.
    """

    value: SSAValue
    offset: Array
    bound: int
    limits: tuple[int, int] | None = None
    reals: Reals | None = None


on_alu: OpFunction[[Any], Registers | str] = OpFunction(f"{__package__}.alu", "")
"""An op as integer sums, comparisons and shifts, which are added to the argument, a `Chain`; or the
reason why it has no such form."""


@on_alu.rule_for(GraphOp)
def not_on_alu(op: GraphOp, chain: object = None) -> str:
    """Return the reason for an op without a form."""
    return f"an alu does not compute {op.name}"
