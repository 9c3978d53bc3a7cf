"""What products of numbers of few bits cost, bit by bit and otherwise."""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute

from tcopt.dialects.graph.bit_forms import BitForm
from tcopt.dialects.intrinsics import find_dot
from tcopt.dialects.target import TargetFacts

LOGIC = 0.5
"""Cycles for a vector of ands or sums, of which CPUs do two at a time."""

COUNT = 1.0
"""Cycles for counting the bits of a vector of words by one instruction."""

COUNT_BY_BYTES = 10.0
"""The same by tables of half-bytes, or by adding up pairs of bits."""

PRODUCTS = 1.0
"""Cycles for a vector of products of bytes or 16-bit integers, added in groups."""

COUNTERS = ({"x86_64", "avx512vpopcntdq"},)
"""What a target must be capable of to count the bits of vectors of words."""


def counts_bits(target: TargetFacts) -> bool:
    """Whether a target counts the bits of each word of a vector by one instruction."""
    return any(needed <= target.capabilities for needed in COUNTERS)


def cycles_bit_by_bit(form: BitForm, planes: int, target: TargetFacts) -> float:
    """Cycles for one vector of sums."""
    count = COUNT if counts_bits(target) else COUNT_BY_BYTES
    return form.steps(planes) * (2 * LOGIC + count)


def cycles_of_products(
    terms: int, factors: tuple[Attribute, Attribute], target: TargetFacts
) -> float:
    """The same for so many terms multiplied as they are."""
    dot = find_dot(target.capabilities, factors, i32)
    group = 1 if dot is None else dot.operands[1].shape[0]
    return terms / group * PRODUCTS
