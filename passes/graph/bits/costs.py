"""What products of numbers of few bits cost, bit by bit and otherwise."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute

from tcopt.dialects.graph.bit_forms import BitForm
from tcopt.dialects.intrinsics import find_dot
from tcopt.dialects.target import TargetFacts

LOGIC = 0.5
"""Cycles for a vector of ands or sums, of which CPUs do two at a time."""

COUNTS = (
    (frozenset({"x86_64", "avx512vpopcntdq"}), 1.0),
    (frozenset({"aarch64"}), 1.0),
    (frozenset({"x86_64", "avx2"}), 5.0),
    (frozenset[str](), 12.0),
)
"""Cycles for counting the bits of each word of a vector, by what a target is capable of, the first
that fits: by one instruction; by bytes (`cnt`), which `uadalp` adds up; by tables of half-bytes
that are looked up, and shuffles; by adding up neighbouring bits."""

PRODUCTS = (
    (frozenset({"aarch64", "dotprod"}), 0.5),
    (frozenset[str](), 1.0),
)
"""Cycles for a vector of products of bytes or 16-bit integers, added in groups, the same way."""


def _cycles(table: Iterable[tuple[frozenset[str], float]], target: TargetFacts) -> float:
    return next(cycles for needed, cycles in table if needed <= target.capabilities)


def cycles_bit_by_bit(form: BitForm, planes: int, target: TargetFacts) -> float:
    """Cycles for one vector of sums."""
    return form.steps(planes) * (2 * LOGIC + _cycles(COUNTS, target))


def cycles_of_products(
    terms: int, factors: tuple[Attribute, Attribute], target: TargetFacts
) -> float:
    """The same for so many terms multiplied as they are."""
    dot = find_dot(target.capabilities, factors, i32)
    group = 1 if dot is None else dot.operands[1].shape[0]
    return terms / group * _cycles(PRODUCTS, target)
