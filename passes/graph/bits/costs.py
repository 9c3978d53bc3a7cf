"""What products of numbers of few bits cost, bit by bit, by tables and otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute

from tcopt.dialects.graph.bit_forms import BitForm
from tcopt.dialects.graph.sum_tables import TableShape
from tcopt.dialects.intrinsics import added_at_once
from tcopt.dialects.intrinsics.table_sums import Lookup
from tcopt.dialects.simd import part_bits
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


LOOKED_UP = 1.5
"""Cycles for a register of bytes that are looked up: CPUs have one or two units for it."""

WIDENED = 12.0
"""Cycles for a register of bytes: what a call looked up, as sums of 32 bits."""

MERGED = 5.0
"""The same for sums of a further plane that are added to those of others."""

TABLE_BYTES = 0.15
"""Cycles for a byte of a table that is made."""

FAR_BYTES, NEAR_BYTES = 16.0, 32.0
"""Bytes a cycle that come from behind the second cache, and from it."""


def _cycles(table: Iterable[tuple[frozenset[str], float]], target: TargetFacts) -> float:
    return next(cycles for needed, cycles in table if needed <= target.capabilities)


def cycles_bit_by_bit(form: BitForm, planes: int, target: TargetFacts) -> float:
    """Cycles for one vector of sums."""
    return form.steps(planes) * (2 * LOGIC + _cycles(COUNTS, target))


def cycles_of_products(
    terms: int, factors: tuple[Attribute, Attribute], target: TargetFacts
) -> float:
    """The same for so many terms multiplied as they are."""
    group = added_at_once(target.capabilities, factors, i32)
    return terms / group * _cycles(PRODUCTS, target)


def cycles_by_tables(
    matrix: tuple[int, ...], rows: int, planes: int, shape: TableShape, lookup: Lookup
) -> float:
    """Cycles for all sums of weights [outputs, channels, taps...], each of which meets so many
    rows."""
    outputs, _, *taps = matrix
    parts = len(part_bits(shape.bits))
    blocks, calls = -(-outputs // lookup.lanes), shape.steps * prod(taps)
    one = shape.groups * planes * (parts * LOOKED_UP + (1 + parts) * LOGIC)
    one += WIDENED + MERGED * (planes - 1)
    tables = shape.steps * shape.groups * parts * lookup.entries * TABLE_BYTES
    return rows * (blocks * calls * one + tables)


def cycles_of_reading(size: int, target: TargetFacts) -> float:
    """Cycles for so many bytes of weights, which are read once beside what is computed."""
    units = target.vectors
    near = units is not None and size <= units.l2
    return size / (NEAR_BYTES if near else FAR_BYTES)
