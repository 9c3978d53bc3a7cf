"""Cost model of contractions with few-bit operands: bit-serial, table lookups, multiplication."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute

from tcopt.dialects.graph.packed.sum_tables import TableShape
from tcopt.dialects.intrinsics import added_at_once
from tcopt.dialects.intrinsics.table_sums import TableLookup
from tcopt.dialects.simd import part_bits
from tcopt.dialects.target import TargetFacts, VectorUnits
from tcopt.passes.graph.bits.forms import BitForm

LOGIC = 0.5
"""Cycles for one vector AND or add; CPUs issue two per cycle."""

COUNTS = (
    (frozenset({"x86_64", "avx512vpopcntdq"}), 1.0),
    (frozenset({"aarch64"}), 1.0),
    (frozenset({"x86_64", "avx2"}), 5.0),
    (frozenset[str](), 12.0),
)
"""Cycles for counting the bits of each word of a vector, for the first set of capabilities that the
target has: one instruction (AVX-512); counts of bytes (`cnt`) summed by `uadalp` (AArch64); lookups
of half-bytes by shuffles (AVX2); adding neighbouring bits (any target)."""

PRODUCTS = (
    (frozenset({"aarch64", "dotprod"}), 0.5),
    (frozenset[str](), 1.0),
)
"""Cycles for one vector of products of bytes or 16-bit integers, summed in groups, for the first
set of capabilities that the target has.
"""


LOOKED_UP = 1.5
"""Cycles for one register of byte lookups; CPUs have one or two units for them."""

WIDENED = 12.0
"""Cycles for widening one register of bytes that a call looked up to 32-bit sums."""

MERGED = 5.0
"""Cycles for adding a register of sums of another bit plane to the first."""

TABLE_BYTES = 0.15
"""Cycles for building one byte of a table."""


def _cycles(table: Iterable[tuple[frozenset[str], float]], target: TargetFacts) -> float:
    return next(cycles for needed, cycles in table if needed <= target.capabilities)


def cycles_bit_by_bit(form: BitForm, planes: int, target: TargetFacts) -> float:
    """Estimate the cycles of one vector of bit-serial sums."""
    return form.steps(planes) * (2 * LOGIC + _cycles(COUNTS, target))


def cycles_of_products(
    terms: int, factors: tuple[Attribute, Attribute], target: TargetFacts
) -> float:
    """Estimate the cycles of one vector of sums of `terms` products."""
    group = added_at_once(target.capabilities, factors, i32)
    return terms / group * _cycles(PRODUCTS, target)


def cycles_by_tables(
    matrix: tuple[int, ...], rows: int, planes: int, shape: TableShape, lookup: TableLookup
) -> float:
    """Estimate the cycles of the sums by table lookups, for `rows` rows of data and weights
    [outputs, channels, taps...]."""
    outputs, _, *taps = matrix
    parts = len(part_bits(shape.bits))
    blocks, calls = -(-outputs // lookup.lanes), shape.steps * prod(taps)
    one = shape.groups * planes * (parts * LOOKED_UP + (1 + parts) * LOGIC)
    one += WIDENED + MERGED * (planes - 1)
    tables = shape.steps * shape.groups * parts * lookup.entries * TABLE_BYTES
    return rows * (blocks * calls * one + tables)


def cycles_of_reading(size: int, target: TargetFacts) -> float:
    """Estimate the cycles of reading `size` bytes of weights once."""
    return size / (target.vectors or VectorUnits()).rate(size)
