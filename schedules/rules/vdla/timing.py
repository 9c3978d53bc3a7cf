"""Estimate the cycles of a tiled contraction on an accelerator.

The units' instructions are simulated in the order in which they start: each waits for its
dependences, for its unit and for the port. Not modelled: padding, which is loaded as data, and
competing port requests in the same cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from tcopt.dialects.target import VdlaTargetAttr
from tcopt.schedules.rules.accelerator.pieces import Pieces
from tcopt.schedules.rules.vdla.epilogue import STORE, EpilogueStep, step_cycles
from tcopt.schedules.rules.vdla.layouts import VdlaLayout
from tcopt.schedules.rules.vdla.roles import VdlaRoles
from tcopt.schedules.rules.vdla.tiles import Load, load_of, sizes_of
from tcopt.support.arithmetic.columns import Column, ceil_div, most, where

_INSTRUCTION_BYTES = 16
_MICRO_OP_BYTES = 4
_HARDWARE_LOOPS = 2
_LOAD, _COMPUTE, _STORE = range(3)


@dataclass(slots=True)
class _Job:
    """An instruction: cycles of the port or of the unit, and the jobs that it waits for.

    `done` is the cycle at which it ends, and negative until that is known.
    """

    unit: int
    port: int
    cycles: int
    after: list[int]
    done: int = -1


@dataclass
class Estimator:
    """Estimates the cycles of tiles on a machine."""

    roles: VdlaRoles
    facts: VdlaTargetAttr

    @cached_property
    def entry_bytes(self) -> Mapping[str, int]:
        """Bytes of an entry of each memory."""
        return self.facts.entry_bytes

    def port_cycles(self, rows: Column, row_bytes: Column) -> Column:
        """Return the cycles for which a transfer occupies the port."""
        return self.facts.transfer_cycles(rows, row_bytes)

    def bound(self, tile: Pieces) -> Column:
        """Return a lower bound on the cycles of a tile, or of many tiles as NumPy arrays.

        It is the maximum of the busy cycles of the port and the units; transfers of operands with a
        single slot do not overlap with computation.
        """
        roles, facts = self.roles, self.facts
        extents = roles.pattern.extents
        outer = _Counts(roles, tile)
        data, weights = self.transfers(tile)
        moved = [
            (outer.data, self._load_cycles(data, "inp")),
            (outer.weights, self._load_cycles(weights, "wgt")),
        ]
        loads = sum(times * cycles for times, cycles in moved)
        results = prod(extents[v] for v in (*roles.outputs, *roles.pixels, *roles.groups))
        store = load_of(roles.results, sizes_of(roles, tile), 1)
        stores = outer.sums * self._load_cycles(store, self.stored)
        work = prod(extents) // (extents[roles.lane] * extents[roles.inner])
        steps = outer.sums * outer.parts
        compute = work * facts.gemm_cycles.data + steps * facts.fill.data
        compute = compute + results * (1 + sum(map(self.step_cycles, roles.epilogue.steps)))
        shown = sum(cycles for _, cycles in moved)
        for slots, (times, cycles) in zip(tile.slots, moved, strict=False):
            shown = shown + where(slots == 1, (times - 1) * cycles, 0)
        shown = shown + where(tile.slots[2] == 1, stores, stores // outer.sums)
        # Each unit has one transfer in flight, and waits for its end.
        latency = facts.latency.data
        loading = loads + latency * (
            outer.data * data.transfers + outer.weights * weights.transfers
        )
        storing = stores + latency * outer.sums * store.transfers
        return most(loads + stores, compute + shown, loading, storing)

    def cycles(self, tile: Pieces, enough: int | None = None) -> int:
        """Return the cycles from the first instruction to the last.

        Args:
            enough: stop early once this number is certain to be reached; the result is then any
                number from it on.
        """
        jobs = self._jobs(tile)
        rest = sum(job.cycles for job in jobs if not job.port)
        facts = self.facts
        queues = [iter([n for n, job in enumerate(jobs) if job.unit == unit]) for unit in range(3)]
        heads = [next(queue, None) for queue in queues]
        ready: list[tuple[int, int, int] | None] = [None, None, None]
        free = [0, 0, 0]
        port = fetch = 0
        group, latency = facts.fetch.data, facts.latency.data
        fetch_cycles = self.port_cycles(1, group * _INSTRUCTION_BYTES)
        fetched = 0
        left = len(jobs)
        while left:
            for unit, number in enumerate(heads):
                if number is None or ready[unit] is not None:
                    continue
                # A known start time is final: the unit executes in order.
                done = [jobs[n].done for n in jobs[number].after]
                if not done or min(done) >= 0:
                    ready[unit] = max([free[unit], *done]), number, unit
            start, number, unit = min(each for each in ready if each is not None)
            if number >= fetched:
                # Instructions are fetched in groups, through the same port.
                port = max(port, fetch) + fetch_cycles
                fetch, fetched = port, fetched + group
                continue
            job = jobs[number]
            if job.port:
                port = max(start, port) + job.port
                job.done = port + latency
            else:
                job.done = start + job.cycles
                rest -= job.cycles
                if enough is not None and job.done + rest >= enough:
                    return job.done + rest
            free[unit] = job.done
            heads[unit], ready[unit] = next(queues[unit], None), None
            left -= 1
        return max(job.done for job in jobs)

    @property
    def stored(self) -> str:
        """The memory whose entries are stored."""
        return "out" if self.roles.epilogue.stores_bytes else "acc"

    def step_cycles(self, step: EpilogueStep) -> int:
        """Return the cycles of the ALU per register entry."""
        return step_cycles(step, self.facts)

    def _load_cycles(self, load: Load, memory: str) -> Column:
        size = self.entry_bytes[memory]
        return load.transfers * self.port_cycles(load.rows, load.columns * size)

    def transfers(self, tile: Pieces) -> tuple[Load, Load]:
        """Return the transfers for one load of data and of weights."""
        roles = self.roles
        data = load_of(roles.inputs, sizes_of(roles, tile, whole_depth=tile.whole_data), 1)
        weights = load_of(roles.kernel, sizes_of(roles, tile, whole_depth=tile.whole_weights), 2)
        return data, weights

    def _jobs(self, tile: Pieces) -> list[_Job]:
        return _Writer(self, tile).jobs


class _Counts:
    """Number of pieces, and how often operands are loaded."""

    def __init__(self, roles: VdlaRoles, tile: Pieces):
        extents = roles.pattern.extents

        def pieces(variables: tuple[int, ...]) -> Column:
            return prod(ceil_div(extents[v], tile.sizes.get(v, extents[v])) for v in variables)

        self.shared = prod(extents[v] for v in roles.groups)
        self.outputs, self.pixels = pieces(roles.outputs), pieces(roles.pixels)
        self.parts = pieces(roles.depth)
        self.sums = self.outputs * self.pixels * self.shared
        inner = tile.pixels_outside
        each = self.sums * self.parts
        with_pixels = self.shared * self.pixels * where(inner, 1, self.outputs)
        with_outputs = self.shared * self.outputs * where(inner, self.pixels, 1)
        self.data = where(tile.whole_data, with_pixels, each)
        self.weights = where(tile.whole_weights, with_outputs, each)


class _Writer:
    """Generates the instructions of a tiled contraction, in program order."""

    def __init__(self, estimator: Estimator, tile: Pieces):
        self.estimator, self.tile = estimator, tile
        self.jobs: list[_Job] = []
        roles, facts = estimator.roles, estimator.facts
        counts = _Counts(roles, tile)
        data, weights = estimator.transfers(tile)
        sizes = sizes_of(roles, tile)
        vectors = prod(sizes[v] for v in (*roles.outputs, *roles.pixels))
        micro_ops = vectors * prod(sizes[v] for v in (*roles.taps, *roles.depth))
        self.sizes, self.vectors = sizes, vectors
        self.gemm = facts.fill.data + micro_ops * facts.gemm_cycles.data
        self.reset_cycles = facts.fill.data + vectors * facts.gemm_cycles.data
        self.store_port = self._store_port(sizes)
        inside = (*roles.outputs, *roles.pixels, *roles.taps, *roles.depth)
        loops = sorted(sizes[v] for v in inside)
        self.micro_ops = prod(loops[:-_HARDWARE_LOOPS])
        self.kernels: set[tuple[int, ...]] = set()
        micro_ops_load = self._add(_COMPUTE, 1, 0, [])
        self.data = _Operand(data, "inp", tile.slots[0])
        self.weights = _Operand(weights, "wgt", tile.slots[1])
        self.stores: list[int] = []
        outer, inner = counts.outputs, counts.pixels
        if tile.pixels_outside:
            outer, inner = inner, outer
        for _ in range(counts.shared):
            for _ in range(outer):
                first, second = self.weights, self.data
                whole_first, whole_second = tile.whole_weights, tile.whole_data
                if tile.pixels_outside:
                    first, second = second, first
                    whole_first, whole_second = whole_second, whole_first
                if whole_first:
                    self._load(first)
                if not tile.pixels_outside:
                    self._tables(of_pixels=False)
                for _ in range(inner):
                    if whole_second:
                        self._load(second)
                    if tile.pixels_outside:
                        self._tables(of_pixels=False)
                    self._tables(of_pixels=True)
                    self._sums(counts.parts)
        size = (1 + len(self.kernels) * self.micro_ops) * _MICRO_OP_BYTES
        self.jobs[micro_ops_load].port = estimator.port_cycles(1, size)

    def _store_port(self, sizes: list[int]) -> tuple[int, int]:
        """Return the transfers of a piece's results, and the port cycles of each."""
        roles = self.estimator.roles
        load = load_of(roles.results, sizes, 1)
        size = self.estimator.entry_bytes[self.estimator.stored]
        return load.transfers, self.estimator.port_cycles(load.rows, load.columns * size)

    def _add(self, unit: int, port: int, cycles: int, after: list[int]) -> int:
        self.jobs.append(_Job(unit, port, cycles, after))
        return len(self.jobs) - 1

    def _load(self, operand: _Operand) -> None:
        """Load a piece into its next slot, after the last instruction that used the slot."""
        operand.now = (operand.now + 1) % operand.slots
        used = operand.used[operand.now]
        after = [] if used is None else [used]
        load = operand.load
        size = self.estimator.entry_bytes[operand.memory]
        port = self.estimator.port_cycles(load.rows, load.columns * size)
        for _ in range(load.transfers):
            operand.loaded = self._add(_LOAD, port, 0, after)

    def _sums(self, parts: int) -> None:
        slots = self.tile.slots[2]
        number = len(self.stores)
        after: list[int] = [self.stores[number - slots]] if number >= slots else []
        self._add(_COMPUTE, 0, self.reset_cycles, after)
        last = 0
        is_apart = self.tile.whole_data or self.tile.whole_weights
        for part in range(parts):
            if not self.tile.whole_data:
                self._load(self.data)
            if not self.tile.whole_weights:
                self._load(self.weights)
            # Parts that were loaded together are at different offsets.
            at = part if is_apart else 0
            self.kernels.add((self.data.now, self.weights.now, number % slots, at))
            last = self._add(_COMPUTE, 0, self.gemm, [self.data.loaded, self.weights.loaded])
            for operand in (self.data, self.weights):
                operand.used[operand.now] = last
        last = self._epilogue(last)
        transfers, port = self.store_port
        stored = [self._add(_STORE, port, 0, [last]) for _ in range(transfers)]
        self.stores.append(stored[-1])

    def _tables(self, *, of_pixels: bool) -> None:
        """Load the operands of the epilogue that depend on the pixel, or those that do not."""
        roles = self.estimator.roles
        for table in roles.epilogue.tables:
            if any(any(table.steps[v]) for v in roles.pixels) == of_pixels:
                self._registers(table, "acc")

    def _registers(self, layout: VdlaLayout, memory: str) -> int:
        """Load registers: the compute unit does this, and waits."""
        load = load_of(layout, self.sizes, 1)
        port = self.estimator.port_cycles(
            load.rows, load.columns * self.estimator.entry_bytes[memory]
        )
        return [self._add(_COMPUTE, port, 0, []) for _ in range(load.transfers)][-1]

    def _epilogue(self, last: int) -> int:
        """Add the instructions of the ALU on the sums; return the last one."""
        fill = self.estimator.facts.fill.data
        for step in self.estimator.roles.epilogue.steps:
            if step.data is not None:
                last = self._registers(step.data, "acc8")
            elif step.kind != STORE:
                cycles = fill + self.vectors * self.estimator.step_cycles(step)
                last = self._add(_COMPUTE, 0, cycles, [])
        return last


@dataclass
class _Operand:
    """State of data or weights: the slot in use, the last load, and the last gemm on each slot."""

    load: Load
    memory: str
    slots: int
    now: int = -1
    loaded: int = 0
    used: dict[int, int | None] = field(default_factory=dict[int, "int | None"])

    def __post_init__(self) -> None:
        self.used = dict.fromkeys(range(self.slots))
