"""Tiles of a sum of products for an accelerator, and what they move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, prod

from tcopt.dialects.target import VdlaTargetAttr
from tcopt.schedules.rules.vdla.roles import Layout, Roles

_MOST_SLOTS = 3
_MOST_PAD = 15
_LEAST_SHARE = 8


@dataclass(frozen=True)
class Tile:
    """How a sum of products is cut into pieces.

    Attributes:
        sizes: by variable, how many of its values a piece has; all where it is not named.
        outputs_outer: whether pieces of the output channels are the outermost loop, and those of
            the pixels inside of it, or the other way round.
        whole_data, whole_weights: whether all parts of the sum are loaded at once, as soon as
            the piece of pixels or of output channels is known.
        slots: of data, weights and sums.
        threads: pieces of the output channels that are virtual threads.
    """

    sizes: Mapping[int, int]
    outputs_outer: bool
    whole_data: bool
    whole_weights: bool
    slots: tuple[int, int, int] = (1, 1, 1)
    threads: int = 1

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.sizes.values()))
        return f"{sizes}, slots {'/'.join(map(str, self.slots))}"


@dataclass(frozen=True)
class Load:
    """What is loaded at a time.

    Attributes:
        entries: how many, pads included.
        transfers: instructions; rows: of each; columns: entries of a row.
    """

    entries: int
    transfers: int
    rows: int
    columns: int


def box_of(source: Layout, sizes: Sequence[int]) -> list[int]:
    """The extents of what a piece reads, in entries along each dimension."""
    rank = len(source.shape)
    return [
        1 + sum((n - 1) * abs(steps[dim]) for n, steps in zip(sizes, source.steps, strict=True))
        for dim in range(rank)
    ]


def load_of(source: Layout, sizes: Sequence[int], unit: int) -> Load:
    """The transfers of a piece.

    Args:
        sizes: how many values of each variable it has.
        unit: how many of the last dimensions are one entry.
    """
    box = box_of(source, sizes)[:-unit]
    rest = list(zip(box, source.shape, source.pads, source.strides, strict=False))
    columns = 1
    is_whole = True
    while rest and is_whole:
        extent, size, padded, stride = rest[-1]
        if stride > 1:
            break
        rest.pop()
        columns *= min(extent, size)
        is_whole = extent == size and not any(padded)
    rows = 1
    while rest and rows == 1:
        rows *= rest.pop()[0]
    return Load(prod(box), prod(each[0] for each in rest), rows, columns)


def sizes_of(roles: Roles, tile: Tile, *, whole_depth: bool = False) -> list[int]:
    """How many values of each variable a piece has."""
    extents = roles.pattern.extents
    return [
        extents[v] if v == roles.depth and whole_depth else min(tile.sizes.get(v, n), n)
        for v, n in enumerate(extents)
    ]


def candidate_tiles(roles: Roles, facts: VdlaTargetAttr) -> Iterator[Tile]:
    """All tiles that fit the memories, with as many slots as do; those of few pixels are left
    out where there is room for many more."""
    extents = roles.pattern.extents
    depth = [] if roles.depth is None else [roles.depth]
    shared = dict.fromkeys(roles.shared, 1)
    for blocks in product(*(_sizes(extents[v]) for v in (*roles.outputs, *depth))):
        chosen = dict(zip((*roles.outputs, *depth), blocks, strict=True)) | shared
        if _most_entries(roles, chosen) > facts.entries["wgt"]:
            continue
        found = [
            tile
            for pixels in product(*(_pixel_sizes(roles, v) for v in roles.pixels))
            for tile in _orders(roles, chosen | dict(zip(roles.pixels, pixels, strict=True)))
        ]
        fitting = [(tile, s) for tile in found if (s := _slots(roles, tile, facts)) is not None]
        most = max((_pixels(roles, tile) for tile, _ in fitting), default=0)
        for tile, slots in fitting:
            if _pixels(roles, tile) * _LEAST_SHARE >= most:
                yield replace(tile, slots=slots)


def _most_entries(roles: Roles, sizes: Mapping[int, int]) -> int:
    """Entries of weights of one part of the sum."""
    tile = Tile(sizes, True, False, False)
    return load_of(roles.weights, sizes_of(roles, tile), 2).entries


def _orders(roles: Roles, sizes: Mapping[int, int]) -> Iterator[Tile]:
    """Orders of the loops, and where operands are loaded."""
    whole = roles.depth is None or sizes[roles.depth] >= roles.pattern.extents[roles.depth]
    for outer, data, weights in product((True, False), repeat=3):
        if not whole or (data and weights):
            yield Tile(sizes, outer, data, weights)


def _pixels(roles: Roles, tile: Tile) -> int:
    return prod(tile.sizes[v] for v in roles.pixels)


def _pixel_sizes(roles: Roles, variable: int) -> list[int]:
    """Sizes of pieces each of which reads some data, and not pads alone."""
    extents, data = roles.pattern.extents, roles.data
    taps = box_of(data, [1 if v in roles.pixels else n for v, n in enumerate(extents)])
    moved = [dim for dim, step in enumerate(data.steps[variable]) if step]
    if any(max(data.pads[dim]) >= taps[dim] for dim in moved):
        return [extents[variable]]
    found = _sizes(extents[variable])
    if not roles.pixels or variable != roles.pixels[-1]:
        return found
    # A narrower last piece is loaded with zeros behind its rows: as many as a transfer may have.
    step = max(abs(data.steps[variable][dim]) for dim in moved) if moved else 1
    most = _MOST_PAD - max((data.pads[dim][1] for dim in moved), default=0)
    return [n for n in found if -extents[variable] % n * step <= most]


def _sizes(extent: int) -> list[int]:
    """Sizes that cut an extent into equal pieces, as far as may be, the largest first."""
    return list(dict.fromkeys(ceil(extent / pieces) for pieces in range(1, extent + 1)))


def entries_of(roles: Roles, tile: Tile) -> tuple[int, int, int]:
    """Entries of a piece's data, weights and sums."""
    data = load_of(roles.data, sizes_of(roles, tile, whole_depth=tile.whole_data), 1)
    weights = load_of(roles.weights, sizes_of(roles, tile, whole_depth=tile.whole_weights), 2)
    sums = prod(sizes_of(roles, tile)[v] for v in (*roles.outputs, *roles.pixels))
    return data.entries, weights.entries, sums


def table_entries(roles: Roles, tile: Tile) -> int:
    """Registers of what is loaded once for many pixels."""
    sizes = sizes_of(roles, tile)
    return sum(load_of(each, sizes, 1).entries for each in roles.epilogue.tables)


def _slots(roles: Roles, tile: Tile, facts: VdlaTargetAttr) -> tuple[int, int, int] | None:
    """As many slots as there are room and pieces for; None where not even one fits."""
    there = facts.entries
    data, weights, sums = entries_of(roles, tile)
    other = sums * roles.epilogue.registers + table_entries(roles, tile)
    found: list[int] = []
    for entries, room, most in (
        (data, there["inp"], _MOST_SLOTS),
        (weights, there["wgt"], _MOST_SLOTS),
        (sums, there["acc"] - other, 2),
    ):
        if entries > room:
            return None
        found.append(min(room // entries, most))
    return found[0], found[1], found[2]
