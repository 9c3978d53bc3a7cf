"""Sums of table entries selected by bits of weights (table look-up instead of multiplication).

All subset sums of a few values are precomputed in a table: entry e is the sum of the values whose
bit in e is set. The bits of as many weights form an index, so no output needs multiplications.
`table_sum_8x1x64_by_22` adds to an i32 one entry of each of 8 tables of 64 entries, indexed by one
bit plane of the weights; with more planes, plane j has weight 2**j. The number after `by` is twice
the bits of an entry, plus 1 if the last plane has a negative weight, as in two's complement.

Entries are non-negative. Entries of up to 7 bits are bytes; entries of 8 to 11 bits are split into
a byte table with the low 7 bits and one with the remaining bits. The sum of one call fits in 16
bits.

Source: Wei et al., T-MAC, https://arxiv.org/abs/2407.00088.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

from xdsl.ir import SSAValue

from tcopt.dialects.intrinsics import Intrinsic, register_family
from tcopt.dialects.simd import LOW_BITS, TableSumOp, part_bits
from tcopt.dialects.te import api as te
from tcopt.dialects.te.functions import select
from tcopt.support.errors import InputError

FAMILY = "table_sum"

MOST_BITS = 11
"""Maximum bits of an entry."""

MOST_GROUPS, MOST_WEIGHT_BITS = 16, 4
"""Maximum number of tables and of weight planes per call."""


class TableLookup(NamedTuple):
    """Byte look-up instruction of a target.

    Attributes:
        numbers: number of values whose subset sums fill a table.
        lanes: bytes looked up by one instruction.
    """

    numbers: int
    lanes: int

    @property
    def entries(self) -> int:
        """The number of entries of a table."""
        return 1 << self.numbers


LOOKUPS = (
    (frozenset({"x86_64", "avx512vbmi"}), TableLookup(6, 64)),
    (frozenset({"x86_64", "avx512bw"}), TableLookup(4, 64)),
    (frozenset({"x86_64", "avx2"}), TableLookup(4, 32)),
    (frozenset({"x86_64", "ssse3"}), TableLookup(4, 16)),
    (frozenset({"aarch64"}), TableLookup(4, 16)),
)
"""Look-up by capabilities; the first match applies. `vpermb` uses all bytes of a register as one
table, `vpshufb` and `tbl` use 16 of them."""


def lookup_of(capabilities: Collection[str]) -> TableLookup | None:
    """Return the byte look-up of a target; None if it has none."""
    known = set(capabilities)
    return next((lookup for needed, lookup in LOOKUPS if needed <= known), None)


def table_sum_name(groups: int, planes: int, entries: int, bits: int, *, signed: bool) -> str:
    """Return the name of the intrinsic for this number of tables and weight planes."""
    return f"{FAMILY}_{groups}x{planes}x{entries}_by_{2 * bits + signed}"


def table_sum_fits(groups: int, planes: int, bits: int, *, signed: bool) -> bool:
    """Whether the sum of a call fits in 16 bits."""
    most = groups * ((1 << bits) - 1)
    if not signed or planes == 1:
        return most * ((1 << planes) - 1) < 1 << 16
    return most << (planes - 1) <= 1 << 15


def chosen_entries(
    tables: Sequence[Sequence[te.Expr]],
    indices: Sequence[Sequence[te.Expr]],
    entry: te.Axis,
    *,
    bits: int,
    signed: bool,
) -> te.Expr:
    """Return one term of the sum over entries, in i32: an entry times the weights that select it.

    Args:
        tables: the parts of the entry, for each group.
        indices: the indices of each group, for each plane.
    """
    number = te.cast(entry, "i32")
    values: list[te.Expr] = []
    for parts in tables:
        value: te.Expr | None = None
        for place, (part, width) in enumerate(zip(parts, part_bits(bits), strict=True)):
            one = te.cast(part, "i32") & ((1 << width) - 1)
            value = one if value is None else value + te.shift_left(one, LOW_BITS * place)
        assert value is not None
        values.append(value)
    last = entry.extent - 1
    total: te.Expr | None = None
    for plane, row in enumerate(indices):
        one = None
        for index, value in zip(row, values, strict=True):
            chosen = select(te.equal(te.cast(index, "i32") & last, number), value, 0)
            one = chosen if one is None else one + chosen
        assert one is not None
        if plane:
            one = te.shift_left(one, plane)
        negative = signed and plane == len(indices) - 1
        if total is None:
            total = te.cast(0, "i32") - one if negative else one
        else:
            total = total - one if negative else total + one
    assert total is not None
    return total


def _lower(
    shape: tuple[int, int, int], bits: int, signed: bool, acc: SSAValue, *tiles: SSAValue
) -> list[TableSumOp]:
    groups, planes, _ = shape
    count = groups * len(part_bits(bits))
    tables, indices = tiles[:count], tiles[count:]
    return [TableSumOp(acc, tables, indices, planes=planes, bits=bits, signed=signed)]


@register_family(FAMILY)
def _make(extents: tuple[int, ...], number: int | None) -> Intrinsic:
    bits, signed = divmod(number or 0, 2)
    if len(extents) != 3 or not 0 < bits <= MOST_BITS:
        raise InputError(
            f"{'x'.join(map(str, extents))} is not the shape of a table sum",
            hint=f"tables, planes and entries, such as 8x1x64, of 1 to {MOST_BITS} bits",
        )
    groups, planes, entries = extents
    if entries not in {lookup.entries for _, lookup in LOOKUPS}:
        raise InputError(f"tables of {entries} entries", hint="of 16 or 64")
    if groups > MOST_GROUPS or planes > MOST_WEIGHT_BITS:
        hint = f"at most {MOST_GROUPS} tables and {MOST_WEIGHT_BITS} planes"
        raise InputError(f"{groups} tables and {planes} planes", hint=hint)
    if not table_sum_fits(groups, planes, bits, signed=bool(signed)):
        text = f"sums of {groups} entries of {bits} bits by weights of {planes} bits"
        raise InputError(f"{text} do not fit into 16 bits", hint="use fewer tables")
    parts = len(part_bits(bits))
    tables = [f"t{p}_{part}" for p in range(groups) for part in range(parts)]
    indices = [f"i{j}_{p}" for j in range(planes) for p in range(groups)]

    def behaviour(*tiles: te.Tensor) -> te.Tensor:
        e = te.reduce_axis(entries, "e")
        rows = [each[()] for each in tiles[len(tables) :]]

        def element() -> te.Reduce:
            found = [each[e] for each in tiles[: len(tables)]]
            term = chosen_entries(
                [found[parts * p : parts * (p + 1)] for p in range(groups)],
                [rows[groups * j : groups * (j + 1)] for j in range(planes)],
                e,
                bits=bits,
                signed=bool(signed),
            )
            return te.sum(term, axis=e)

        return te.compute((), element, name="sum")

    shapes: dict[str, tuple[tuple[int, ...], str]] = {
        **{name: ((entries,), "ui8") for name in tables},
        **{name: ((), "ui8") for name in indices},
    }
    return Intrinsic(
        table_sum_name(groups, planes, entries, bits, signed=bool(signed)),
        inputs=shapes,
        behaviour=behaviour,
        lowering=partial(_lower, (groups, planes, entries), bits, bool(signed)),
        requires=[()],
    )
