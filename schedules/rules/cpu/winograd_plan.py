"""Divide a Winograd convolution into chunks that stay in cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.support.arithmetic.columns import Column, ceil_div, least, most, nearest, where
from tcopt.support.machines.machine import EXPOSED
from tcopt.support.machines.register_tiles import Tile, TileProblem, candidate_tiles, estimate
from tcopt.support.memo import memo


@dataclass(frozen=True)
class Problem:
    """The sizes of a convolution with t x t tiles.

    Attributes:
        images: number of images.
        rows, columns: tiles of an image, vertically and horizontally.
        places: elements of a transformed tile, t * t.
        inputs, outputs: blocks of channels, of `lanes` channels each.
        bytes: size of the operand that an instruction multiplies in a lane: an element, or the
            terms of a dot product.
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
class WinogradPlan:
    """Chunks of `rows` x `columns` tiles; sizes are integers, or NumPy arrays for many plans.

    Attributes:
        shared: whether the data of all tiles is transformed first, after which each thread
            contracts it for a part of the output channels. Otherwise each thread processes whole
            chunks.
        tile: the register tile of the contraction: tiles by blocks of output channels.
        groups: register tiles of output channels that are contracted before their output transform.
    """

    rows: Column
    columns: Column
    shared: Column
    tile: Tile
    groups: Column = 1


def divisors(number: int) -> list[int]:
    """Return all divisors, in ascending order."""
    return [d for d in range(1, number + 1) if number % d == 0]


@memo(256)
def choose_plan(problem: Problem, facts: CpuFacts) -> WinogradPlan:
    """Return the plan with the lowest estimated time; ties are broken by the larger chunk."""
    plans = list(_candidates(problem, facts))
    sizes = [(p.rows, p.columns, p.shared, p.tile.rows, p.tile.vectors, p.groups) for p in plans]
    rows, columns, shared, height, vectors, groups = np.array(sizes).T
    many = WinogradPlan(rows, columns, shared == 1, Tile(height, vectors, problem.lanes), groups)
    return plans[int(np.lexsort((-rows * columns, cycles(many, problem, facts)))[0])]


def _candidates(problem: Problem, facts: CpuFacts) -> Iterator[WinogradPlan]:
    # Tiles are numbered along rows, so parts of several rows would not be contiguous.
    whole = [(rows, problem.columns) for rows in divisors(problem.rows)]
    parts = [(1, columns) for columns in divisors(problem.columns)]
    for rows, columns in dict.fromkeys([*whole, *parts]):
        for tile in _tiles(contraction_of(rows * columns, problem), facts):
            for shared in (False, True):
                for groups in divisors(problem.outputs // tile.vectors):
                    yield WinogradPlan(rows, columns, shared, tile, groups)


def contraction_of(tiles: Column, problem: Problem) -> TileProblem:
    """Return the contraction of a chunk: one matrix product per element of a transformed tile."""
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
    """Return the best register tile of each width for a chunk; widths divide the blocks evenly."""
    blocks = space.columns // space.lanes
    tiles = [t for t in candidate_tiles(space, facts) if blocks % t.vectors == 0]
    rows, vectors = np.array([(t.rows, t.vectors) for t in tiles]).T
    many = Tile(rows, vectors, space.lanes)
    # A last tile of another height needs separate code.
    uneven = np.where(space.rows % rows, UNEVEN, 1.0)
    costs = nearest(uneven * estimate(space, many, True, facts))
    order = np.lexsort((-many.accumulators, costs))
    return [
        tiles[int(next(n for n in order if vectors[n] == width))]
        for width in sorted({tile.vectors for tile in tiles})
    ]


UNEVEN = 1.05
"""Minimum gain factor for tiles of two heights, which need separate code."""


def cycles(plan: WinogradPlan, problem: Problem, facts: CpuFacts) -> Column:
    """Estimate the cycles of all threads: contraction, and stalls for weights and data.

    The arithmetic of the transforms costs the same for every plan.
    """
    tiles = plan.rows * plan.columns
    chunks = problem.images * problem.rows * problem.columns // tiles
    blocks = plan.tile.vectors * plan.groups
    parts = most(problem.outputs // blocks, 1)
    size = problem.places * problem.lanes * problem.bytes
    weights = size * problem.steps * problem.inputs * problem.outputs
    data, products = size // problem.group * tiles * problem.inputs, size * tiles * blocks
    # Results are written for one element at a time, and read for all elements together.
    results = chunks * parts * products / _rate(products, facts)
    whole = data * chunks
    rate = _rate(data + products, facts)
    # The data is written by one core and read by another.
    handed = 2 * whole / least(_rate(0, facts, whole), facts.l3_rate)
    kept = chunks * data / rate * where(rate == facts.near_rate, 1, 2)
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
    # Transforms stall for their data, while the products overlap with the transfer of theirs.
    return transforms + (most(compute, reads) + EXPOSED * least(compute, reads)) * rounds


UNEQUAL_CORES = 0.05
"""Relative difference in speed between cores, caused by other load. With several tasks per core,
the faster ones do more of them."""

STREAM_RATE = 12.0
"""Maximum bytes per cycle of weights that are read once each: streams of a few pages, for which the
prefetcher restarts at every element of the tile."""


def _waiting(tile: Tile, step: Column, weights: int, rate: Column) -> Column:
    """Return the cycles by which weights arrive later than the first tile of rows needs them.

    Args:
        step, weights: bytes that a step of a tile reads, and bytes of all weights.
    """
    return weights / step * most(0.0, step / least(rate, STREAM_RATE) - tile.accumulators / 2)


def _rate(own: Column, facts: CpuFacts, common: Column = 0) -> Column:
    """Return the bytes per cycle at which a core rereads its private and shared data.

    Only a quarter of L3 counts: inputs, outputs and weights pass through it too.
    """
    behind = where(own * facts.cores + common <= facts.l3 // 4, facts.l3_rate, facts.memory_rate)
    return where(facts.is_near(own + common), facts.near_rate, behind)
