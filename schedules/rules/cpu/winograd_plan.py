"""How a transformed convolution is cut into chunks that stay in cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.tiles import Space, Tile, candidate_tiles, estimate

L2_RATE = 20.0
"""Bytes a cycle that a core streams from its second cache, as measured; half of the peak."""

L3_RATE = 8.0
"""The same from what lies behind it."""

DRAM_RATE = 4.0
"""The same from memory."""


@dataclass(frozen=True)
class Problem:
    """The sizes of a convolution through t x t tiles.

    Attributes:
        images: images; `rows`, `columns`: tiles of an image, down and across.
        places: numbers of a transformed tile, t * t.
        inputs, outputs: blocks of channels, of `lanes` each.
        bytes: of an element.
    """

    images: int
    rows: int
    columns: int
    places: int
    inputs: int
    outputs: int
    lanes: int
    bytes: int


@dataclass(frozen=True)
class Plan:
    """A chunk is `rows` x `columns` tiles.

    Attributes:
        shared: the data of all tiles is transformed first, then each thread contracts it for a
            part of the output channels; otherwise a thread takes chunks through everything.
        tile: the register tile of the contraction: tiles by blocks of output channels.
        groups: register tiles of output channels that are contracted before they are
            transformed back.
    """

    rows: int
    columns: int
    shared: bool
    tile: Tile
    groups: int = 1


def divisors(number: int) -> list[int]:
    """All divisors, ascending."""
    return [d for d in range(1, number + 1) if number % d == 0]


def choose_plan(problem: Problem, facts: CpuFacts) -> Plan:
    """The plan of the least estimated time; ties go to the larger chunk."""
    plans = list(_candidates(problem, facts))
    return min(plans, key=lambda p: (_cycles(p, problem, facts), -p.rows * p.columns))


def _candidates(problem: Problem, facts: CpuFacts) -> Iterator[Plan]:
    # Tiles are numbered along rows, so parts of several rows would not lie together.
    whole = [(rows, problem.columns) for rows in divisors(problem.rows)]
    parts = [(1, columns) for columns in divisors(problem.columns)]
    for rows, columns in dict.fromkeys([*whole, *parts]):
        for tile in _tiles(_space(rows * columns, problem), facts):
            for shared in (False, True):
                for groups in divisors(problem.outputs // tile.vectors):
                    yield Plan(rows, columns, shared, tile, groups)


def _space(tiles: int, problem: Problem) -> Space:
    """The contraction of a chunk: one matrix product for each place of a transformed tile."""
    channels = problem.inputs * problem.lanes
    return Space(
        rows=tiles,
        spans=1,
        columns=problem.outputs * problem.lanes,
        lanes=problem.lanes,
        element_bytes=problem.bytes,
        steps=channels,
        repeats=problem.places,
        scalar_bytes=problem.places * tiles * channels * problem.bytes,
    )


def _tiles(space: Space, facts: CpuFacts) -> list[Tile]:
    """Register tiles for a chunk, the best of each width; widths are equal parts of the blocks."""
    blocks = space.columns // space.lanes
    tiles = [t for t in candidate_tiles(space, facts) if blocks % t.vectors == 0]

    def cost(tile: Tile) -> tuple[int, int]:
        # A last tile of another height is code of its own.
        uneven = UNEVEN if space.rows % tile.rows else 1.0
        return round(uneven * estimate(space, tile, True, facts)), -tile.accumulators

    widths = sorted({tile.vectors for tile in tiles})
    return [min((t for t in tiles if t.vectors == width), key=cost) for width in widths]


UNEVEN = 1.05
"""What tiles of two heights should gain at least, for being compiled twice."""


def _cycles(plan: Plan, problem: Problem, facts: CpuFacts) -> float:
    """Time of all threads, of the contraction and of the weights and data it waits for.

    The transforms cost the same for every plan.
    """
    tiles = plan.rows * plan.columns
    chunks = problem.images * problem.rows * problem.columns // tiles
    blocks = plan.tile.vectors * plan.groups
    parts = problem.outputs // blocks
    size = problem.places * problem.lanes * problem.bytes
    weights = size * problem.lanes * problem.inputs * problem.outputs
    data, products = size * tiles * problem.inputs, size * tiles * blocks
    # What is written for each place at once, and read at all places together.
    results = chunks * parts * products / _rate(products, facts)
    reads = results
    if plan.shared:
        whole = data * chunks
        first = _rate(0, facts, weights)
        again = _rate(weights / parts + data, facts)
        # Written by one core and read by another.
        transforms = 2 * whole / min(_rate(0, facts, whole), L3_RATE) + results
        reads += parts * whole / _rate(products, facts, whole)
    else:
        first = again = _rate(data + products, facts, weights)
        rate = _rate(data + products, facts)
        transforms = chunks * data / rate * (1 if rate == L2_RATE else 2) + results
        reads += chunks * parts * data / rate
    compute = chunks * estimate(_space(tiles, problem), plan.tile, True, facts)
    step = plan.tile.vectors * plan.tile.lanes * problem.bytes
    later = (chunks - 1) * _waiting(plan.tile, step, weights, again)
    compute += _waiting(plan.tile, step, weights, first) + later
    tasks = chunks * (parts if plan.shared else 1)
    rounds = ceil(tasks / facts.cores) * facts.cores / tasks
    if facts.cores > 1:
        rounds += UNEQUAL_CORES * facts.cores / tasks
    # Transforms wait for what they move, while products are computed as their data comes.
    return transforms + (max(compute, reads) + min(compute, reads) / 4) * rounds


UNEQUAL_CORES = 0.05
"""How much longer one core takes than another for the same, as others disturb it. With several
parts for each, the faster one does more of them."""

STREAM_RATE = 12.0
"""Bytes a cycle at most of weights that are read once each: a stream of a few pages, which
prefetching has to find anew at every place."""


def _waiting(tile: Tile, step: int, weights: int, rate: float) -> float:
    """Cycles by which weights come later than the first tile of rows could use them.

    Args:
        step, weights: bytes that a step of a tile reads, and that there are.
    """
    return weights / step * max(0.0, step / min(rate, STREAM_RATE) - tile.accumulators / 2)


def _rate(own: float, facts: CpuFacts, common: float = 0) -> float:
    """Bytes a cycle at which a core reads again what it has of its own and in common.

    Of the last cache a quarter counts: inputs, outputs and weights pass through it, too.
    """
    if own + common <= facts.l2 * 7 // 8:
        return L2_RATE
    return L3_RATE if own * facts.cores + common <= facts.l3 // 4 else DRAM_RATE
