"""Feature columns of choices for the learned model, computed by formulas without building IR.

A rule's space describes, for each choice, the loops and the reads and writes of its block; the rest
is arithmetic on columns (`footprints.py`). Columns describe loops, bytes and registers instead of
knobs, so that the model generalises across layers, models and machines. Only `choice.*` depend on
the rule: they are the values of its knobs, hashed by name.

All columns are log2(1 + x) as 32-bit floats. If the meaning of a column changes, `VERSION` must be
increased. The columns are those that AutoTVM and Ansor found useful, by memory level of the target
instead of by loop: Chen et al., Learning to Optimize Tensor Programs (2018), section A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from tcopt.schedules.spaces.space import NestKind, Operand, Space
from tcopt.tuner.footprints import (
    LINE,
    Floats,
    NestMeasures,
    behind,
    extent_of,
    measure_nest,
    strides,
    suffix,
)

VERSION = 1
"""Version of the meaning of the columns."""

SLOTS = ("output", "first", "second", "rest")
"""Operand slots: the outputs, the first two inputs, and all other inputs together."""

BYTES_AT = ("tile", "inner", "l1", "l2", "task")
REUSE_AT = ("tile", "l1", "l2", "l3")
TRAFFIC_OF = ("l1", "l2", "l3")
ITERATIONS_AT = ("tile", "inner", "l1", "l2", "l3", "task")
"""Loop levels: the unrolled loops (`tile`), these and the next loop (`inner`), the loops whose
footprint fits a cache (`l1` to `l3`), and the work of one thread (`task`).
"""

STRIDES_OF = ("last", "inner")
SCALARS = (
    "accumulators",
    "registers_left",
    "multiply_adds_per_load",
    "tail_waste",
    "tasks",
    "rounds_waste",
    "code_size",
    "vector_share",
    "loops",
    "estimate",
)
RULES = 6
"""Columns that distinguish rules, indexed by a hash of the name, as plugins may add rules."""

CHOICES = 12
"""Columns for the values of knobs, indexed by a hash of the knob's name."""

CHUNK = 4096
"""Choices computed at a time, so that their columns stay in cache."""

NAMES: tuple[str, ...] = (
    *(f"{slot}.bytes.{at}" for slot in SLOTS for at in BYTES_AT),
    *(f"{slot}.reuse.{at}" for slot in SLOTS for at in REUSE_AT),
    *(f"{slot}.traffic.{of}" for slot in SLOTS for of in TRAFFIC_OF),
    *(f"{slot}.stride.{of}" for slot in SLOTS for of in STRIDES_OF),
    *(f"iterations.{at}" for at in ITERATIONS_AT),
    *(f"extent.{kind.name.lower()}" for kind in NestKind),
    *SCALARS,
    *(f"rule.{number}" for number in range(RULES)),
    *(f"choice.{number}" for number in range(CHOICES)),
)
"""Names of the columns, in order."""

_SAMPLE = 512
"""Choices sampled to determine the trip count of each variable."""


@dataclass(frozen=True)
class MachineFacts:
    """Facts of a target that features depend on.

    Attributes:
        cores: units that run in parallel: cores of a CPU, resident blocks of a GPU.
        registers: registers of `vector_bytes` each, of a core or thread.
        l1, l2, l3: cache sizes in bytes.
    """

    cores: int = 1
    registers: int = 16
    vector_bytes: int = 16
    l1: int = 32 << 10
    l2: int = 256 << 10
    l3: int = 4 << 20

    @classmethod
    def of(cls, facts: object) -> MachineFacts:
        """Return the machine facts of a target; facts that are unknown have typical values."""
        if isinstance(facts, MachineFacts):
            return facts
        shared = getattr(facts, "shared", 0)
        return cls(
            getattr(facts, "cores", cls.cores),
            getattr(facts, "registers", cls.registers),
            getattr(facts, "vector_bits", 8 * cls.vector_bytes) // 8,
            getattr(facts, "l1", shared) or cls.l1,
            getattr(facts, "l2", 0) or cls.l2,
            getattr(facts, "l3", 0) or cls.l3,
        )


class SpaceFeatures:
    """Compute the features of choices in one rule's space.

    Args:
        rule: name of the rule.
        facts: the target's facts, as rules take them.
    """

    def __init__(self, rule: str, space: Space, facts: object):
        self.rule, self.space = rule, space
        self.machine = MachineFacts.of(facts)
        self._slots = _slots(space.operands())
        self._operands = [operand for slot in self._slots for operand in slot]
        self._of_knob = [_bucket(knob.name, CHOICES) for knob in space.knobs]

    def __call__(self, points: NDArray[np.int64]) -> Floats:
        """Return a row of features for each row of knob positions, in the order of `NAMES`."""
        rows = [self._of_chunk(points[i : i + CHUNK]) for i in range(0, len(points), CHUNK)]
        return np.concatenate(rows) if rows else np.empty((0, len(NAMES)), np.float32)

    @cached_property
    def _extents(self) -> Floats:
        """Trip count of each variable: the minimum over sampled choices, as some choices pad it."""
        points = self.space.draw(_SAMPLE, np.random.default_rng(0))
        first = self.space.point(self.space.default())
        nest = self._measure(np.concatenate([first[None], points]))
        return nest.padded.min(axis=1, keepdims=True)

    @cached_property
    def _default_estimate(self) -> float:
        k = self.space.at(self.space.point(self.space.default())[None])
        return float(np.max(np.asarray(self.space.estimate(k), dtype=np.float64)))

    def _measure(self, points: NDArray[np.int64]) -> NestMeasures:
        k = self.space.at(points)
        return measure_nest(self.space.nest(k), self._operands, len(points))

    def _of_chunk(self, points: NDArray[np.int64]) -> Floats:
        nest = self._measure(points)
        measures = _Measures(nest, self._slots, self.machine)
        count = len(points)
        columns = np.zeros((len(NAMES), count), np.float32)
        rows = iter(range(len(NAMES)))
        for column in measures.columns():
            columns[next(rows)] = column
        for column in self._scalars(measures, points):
            columns[next(rows)] = column
        start = NAMES.index("rule.0")
        columns[start + _bucket(self.rule, RULES)] = 1
        for place, (bucket, knob) in enumerate(zip(self._of_knob, self.space.knobs, strict=True)):
            values = np.asarray(knob.values, np.float32)
            columns[start + RULES + bucket] += np.abs(values)[points[:, place]]
        np.maximum(columns, 0, out=columns)
        columns += 1
        np.log2(columns, out=columns)
        return np.ascontiguousarray(columns.T)

    def _scalars(self, measures: _Measures, points: NDArray[np.int64]) -> list[Floats]:
        """Return the columns of `SCALARS`, in that order."""
        nest, machine = measures.nest, self.machine
        vector = extent_of(nest, NestKind.VECTOR)
        element = self._operands[0].element_bytes if self._operands else 4.0
        lanes = np.float32(max(machine.vector_bytes / element, 1))
        products = measures.iterations("tile") / np.maximum(vector, 1)
        accumulators = measures.written("tile") / lanes
        loads = measures.loads(vector)
        tasks = extent_of(nest, NestKind.PARALLEL) * extent_of(nest, NestKind.BLOCK)
        rounds = np.ceil(tasks / np.float32(machine.cores)) * np.float32(machine.cores)
        waste = nest.padded / self._extents if len(nest.padded) else nest.padded
        k = self.space.at(points)
        estimate = np.asarray(self.space.estimate(k), np.float64)
        relative = estimate / (abs(self._default_estimate) or 1.0)
        return [
            accumulators,
            machine.registers - accumulators - loads,
            products / np.maximum(loads, 1),
            waste.prod(axis=0) - 1,
            tasks,
            rounds / np.maximum(tasks, 1) - 1,
            products + loads + accumulators,
            vector / lanes,
            np.count_nonzero(nest.extents > 1, axis=0).astype(np.float32),
            np.broadcast_to(relative, len(points)).astype(np.float32),
        ]


class _Measures:
    """Measures of a nest at the loop levels used by features."""

    def __init__(
        self, nest: NestMeasures, slots: Sequence[Sequence[Operand]], machine: MachineFacts
    ):
        self.nest = nest
        self._slots = slots
        depth, count = nest.extents.shape
        self._places: NDArray[np.intp] = np.arange(count, dtype=np.intp)
        self._bytes, self._elements, self._lines, self._strides = self._by_slot(depth, count)
        single = nest.extents <= 1
        written_out = (nest.kinds == NestKind.UNROLLED) | (nest.kinds == NestKind.VECTOR)
        spread = (nest.kinds == NestKind.PARALLEL) | (nest.kinds == NestKind.BLOCK)
        tile = suffix(written_out | single)
        footprint = np.sum(self._lines, axis=0) * np.float32(LINE)
        self._levels = {
            "tile": tile,
            "inner": np.maximum(tile - 1, 0),
            "task": behind(spread & ~single),
        }
        for name in TRAFFIC_OF:
            within = np.count_nonzero(footprint > getattr(machine, name), axis=0)
            self._levels[name] = np.minimum(within, depth)

    def columns(self) -> list[Floats]:
        """Return the columns of operands and loops, in the order of `NAMES`."""
        found = [self._at(each, at) for each in self._bytes for at in BYTES_AT]
        for elements in self._elements:
            for at in REUSE_AT:
                touched = self._at(elements, at)
                found.append(
                    self.iterations(at) / touched if touched.all() else np.zeros_like(touched)
                )
        found += [self._traffic(lines, of) for lines in self._lines for of in TRAFFIC_OF]
        found += [self._stride(each, of) for each in self._strides for of in STRIDES_OF]
        found += [self.iterations(at) for at in ITERATIONS_AT]
        found += [extent_of(self.nest, kind) for kind in NestKind]
        return found

    def iterations(self, at: str) -> Floats:
        return self._at(self.nest.iterations, at)

    def written(self, at: str) -> Floats:
        """Return the number of output elements accessed at a level."""
        return self._at(self._elements[0], at)

    def loads(self, vector: Floats) -> Floats:
        """Return the registers that a tile loads: vectors, or scalars where all lanes read the
        same.
        """
        total = np.zeros_like(vector)
        for elements, step in zip(self._elements[1:], self._strides[1:], strict=True):
            moves = self._stride(step, "last") > 0
            total += self._at(elements, "tile") / np.where(moves, np.maximum(vector, 1), 1)
        return total

    def _by_slot(
        self, depth: int, count: int
    ) -> tuple[list[Floats], list[Floats], list[Floats], list[Floats]]:
        bytes_: list[Floats] = []
        elements: list[Floats] = []
        lines: list[Floats] = []
        steps: list[Floats] = []
        nothing = np.zeros((depth + 1, count), np.float32)
        variables = len(self.nest.padded)
        first = 0
        for slot in self._slots:
            own = range(first, first + len(slot))
            first += len(slot)
            sums = [nothing, nothing, nothing]
            step = np.zeros(variables, np.float32)
            for number, operand in zip(own, slot, strict=True):
                found = self.nest.elements[number]
                of_lines = self.nest.lines[number]
                size = found * np.float32(operand.element_bytes)
                parts = zip(sums, (size, found, of_lines), strict=True)
                sums = [part if total is nothing else total + part for total, part in parts]
                step = np.maximum(step, strides(operand, variables))
            bytes_.append(sums[0])
            elements.append(sums[1])
            lines.append(sums[2])
            steps.append(step)
        return bytes_, elements, lines, steps

    def _at(self, values: Floats, level: str) -> Floats:
        return values[self._levels[level], self._places]

    def _traffic(self, lines: Floats, cache: str) -> Floats:
        """Return the bytes read from beyond a cache: the footprint that fits it, times reloads.

        The loop around that footprint causes no reload if it does not change the accessed lines.
        """
        inside = self._levels[cache]
        outside = np.maximum(inside - 1, 0)
        own = lines[inside, self._places]
        times = self.nest.iterations[0] / self.nest.iterations[inside, self._places]
        if len(self.nest.extents):
            stays = (lines[outside, self._places] == own) & (inside > 0)
            times = times / np.where(stays, self.nest.extents[outside, self._places], 1)
        return own * times * np.float32(LINE)

    def _stride(self, steps: Floats, of: str) -> Floats:
        """Return the byte stride along the innermost loop, or along the loop around the tile."""
        depth = len(self.nest.extents)
        if not depth:
            return np.zeros(len(self._places), np.float32)
        level = self._levels["inner"] if of == "inner" else np.full(len(self._places), depth - 1)
        level = np.minimum(level, depth - 1)
        return steps[self.nest.variables[level, self._places]]


def _slots(operands: Sequence[Operand]) -> list[list[Operand]]:
    """Group operands by slot: outputs, first input, second input, all other inputs."""
    outputs = [each for each in operands if each.is_output]
    inputs = [each for each in operands if not each.is_output]
    return [outputs, inputs[:1], inputs[1:2], inputs[2:]]


def _bucket(name: str, count: int) -> int:
    """Hash a name to a bucket, the same in every process and version of Python."""
    return int.from_bytes(blake2b(name.encode(), digest_size=4).digest(), "little") % count
