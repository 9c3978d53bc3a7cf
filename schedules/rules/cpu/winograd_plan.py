"""How a transformed convolution is cut into chunks that stay in cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.tiles import Tile, TileProblem, candidate_tiles, estimate
from tcopt.support.columns import Column, ceil_div, least, most, nearest, where
from tcopt.support.memo import memo

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
        bytes: of what an instruction multiplies in a lane: an element, or the terms of a dot
            product.
        group: terms of a dot product; 1 without one.
    """

    images: int
    rows: int
    columns: int
    places: int
    inputs: int
    outputs: int
    lanes: int
    bytes: int
    group: int = 1

    @property
    def steps(self) -> int:
        """Instructions for a sum over the channels of a block."""
        return self.lanes // self.group


@dataclass(frozen=True)
class Plan:
    """A chunk is `rows` x `columns` tiles: numbers, or columns of many plans.

    Attributes:
        shared: the data of all tiles is transformed first, then each thread contracts it for a
            part of the output channels; otherwise a thread takes chunks through everything.
        tile: the register tile of the contraction: tiles by blocks of output channels.
        groups: register tiles of output channels that are contracted before they are
            transformed back.
    """

    rows: Column
    columns: Column
    shared: Column
    tile: Tile
    groups: Column = 1


def divisors(number: int) -> list[int]:
    """All divisors, ascending."""
    return [d for d in range(1, number + 1) if number % d == 0]


@memo(256)
def choose_plan(problem: Problem, facts: CpuFacts) -> Plan:
    """The plan of the least estimated time; ties go to the larger chunk."""
    plans = list(_candidates(problem, facts))
    sizes = [(p.rows, p.columns, p.shared, p.tile.rows, p.tile.vectors, p.groups) for p in plans]
    rows, columns, shared, height, vectors, groups = np.array(sizes).T
    many = Plan(rows, columns, shared == 1, Tile(height, vectors, problem.lanes), groups)
    return plans[int(np.lexsort((-rows * columns, cycles(many, problem, facts)))[0])]


def _candidates(problem: Problem, facts: CpuFacts) -> Iterator[Plan]:
    # Tiles are numbered along rows, so parts of several rows would not lie together.
    whole = [(rows, problem.columns) for rows in divisors(problem.rows)]
    parts = [(1, columns) for columns in divisors(problem.columns)]
    for rows, columns in dict.fromkeys([*whole, *parts]):
        for tile in _tiles(contraction_of(rows * columns, problem), facts):
            for shared in (False, True):
                for groups in divisors(problem.outputs // tile.vectors):
                    yield Plan(rows, columns, shared, tile, groups)


def contraction_of(tiles: Column, problem: Problem) -> TileProblem:
    """The contraction of a chunk: one matrix product for each place of a transformed tile."""
    channels = problem.inputs * problem.steps
    return TileProblem(
        rows=tiles,
        spans=1,
        columns=problem.outputs * problem.lanes,
        lanes=problem.lanes,
        element_bytes=problem.bytes,
        steps=channels,
        repeats=problem.places,
        scalar_bytes=problem.places * tiles * channels * problem.bytes,
        streams=True,
        is_dot=problem.group > 1,
    )


def _tiles(space: TileProblem, facts: CpuFacts) -> list[Tile]:
    """Register tiles for a chunk, the best of each width; widths are equal parts of the blocks."""
    blocks = space.columns // space.lanes
    tiles = [t for t in candidate_tiles(space, facts) if blocks % t.vectors == 0]
    rows, vectors = np.array([(t.rows, t.vectors) for t in tiles]).T
    many = Tile(rows, vectors, space.lanes)
    # A last tile of another height is code of its own.
    uneven = np.where(space.rows % rows, UNEVEN, 1.0)
    costs = nearest(uneven * estimate(space, many, True, facts))
    order = np.lexsort((-many.accumulators, costs))
    return [
        tiles[int(next(n for n in order if vectors[n] == width))]
        for width in sorted({tile.vectors for tile in tiles})
    ]


UNEVEN = 1.05
"""What tiles of two heights should gain at least, for being compiled twice."""


def cycles(plan: Plan, problem: Problem, facts: CpuFacts) -> Column:
    """Time of all threads, of the contraction and of the weights and data it waits for.

    The transforms cost the same for every plan.
    """
    tiles = plan.rows * plan.columns
    chunks = problem.images * problem.rows * problem.columns // tiles
    blocks = plan.tile.vectors * plan.groups
    parts = most(problem.outputs // blocks, 1)
    size = problem.places * problem.lanes * problem.bytes
    weights = size * problem.steps * problem.inputs * problem.outputs
    data, products = size // problem.group * tiles * problem.inputs, size * tiles * blocks
    # What is written for each place at once, and read at all places together.
    results = chunks * parts * products / _rate(products, facts)
    whole = data * chunks
    rate = _rate(data + products, facts)
    # Written by one core and read by another.
    handed = 2 * whole / least(_rate(0, facts, whole), L3_RATE)
    kept = chunks * data / rate * where(rate == L2_RATE, 1, 2)
    transforms = where(plan.shared, handed, kept) + results
    gathered = parts * whole / _rate(products, facts, whole)
    reads = results + where(plan.shared, gathered, chunks * parts * data / rate)
    alone = _rate(data + products, facts, weights)
    first = where(plan.shared, _rate(0, facts, weights), alone)
    again = where(plan.shared, _rate(weights / parts + data, facts), alone)
    compute = chunks * estimate(contraction_of(tiles, problem), plan.tile, True, facts)
    step = plan.tile.vectors * plan.tile.lanes * problem.bytes
    later = (chunks - 1) * _waiting(plan.tile, step, weights, again)
    compute = compute + (_waiting(plan.tile, step, weights, first) + later)
    tasks = chunks * where(plan.shared, parts, 1)
    rounds = ceil_div(tasks, facts.cores) * facts.cores / tasks
    if facts.cores > 1:
        rounds = rounds + UNEQUAL_CORES * facts.cores / tasks
    # Transforms wait for what they move, while products are computed as their data comes.
    return transforms + (most(compute, reads) + least(compute, reads) / 4) * rounds


UNEQUAL_CORES = 0.05
"""How much longer one core takes than another for the same, as others disturb it. With several
parts for each, the faster one does more of them."""

STREAM_RATE = 12.0
"""Bytes a cycle at most of weights that are read once each: a stream of a few pages, which
prefetching has to find anew at every place."""


def _waiting(tile: Tile, step: Column, weights: int, rate: Column) -> Column:
    """Cycles by which weights come later than the first tile of rows could use them.

    Args:
        step, weights: bytes that a step of a tile reads, and that there are.
    """
    return weights / step * most(0.0, step / least(rate, STREAM_RATE) - tile.accumulators / 2)


def _rate(own: Column, facts: CpuFacts, common: Column = 0) -> Column:
    """Bytes a cycle at which a core reads again what it has of its own and in common.

    Of the last cache a quarter counts: inputs, outputs and weights pass through it, too.
    """
    near = own + common <= facts.l2 * 7 // 8
    behind = where(own * facts.cores + common <= facts.l3 // 4, L3_RATE, DRAM_RATE)
    return where(near, L2_RATE, behind)
