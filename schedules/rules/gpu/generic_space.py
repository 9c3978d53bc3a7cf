"""What `gpu-generic` leaves open: tiles of blocks, threads and registers, and what is shared.

Each spatial variable of the block that counts is cut into five loops, each variable of its sum into
three. The levels are S S S R R S R S, outermost first, as in Ansor's sketches for GPUs (Zheng et
al., 2020): blocks, virtual threads, threads, parts of a sum, pieces of a part, places of a thread,
terms, elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.patterns import (
    BlockPattern,
    StridedAccess,
    element_bits,
)
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.facts import WORD_BITS, GpuFacts
from tcopt.schedules.rules.gpu.generic_reads import reads_of
from tcopt.schedules.rules.gpu.shared_tile_choice import FETCH, WAIT, WORD
from tcopt.schedules.rules.nests import loop_variables
from tcopt.schedules.rules.operands import operands_of
from tcopt.schedules.spaces.sizes import sizes_up_to
from tcopt.schedules.spaces.space import (
    Choice,
    Column,
    Knob,
    LoopLevel,
    NestKind,
    Operand,
    Point,
    Space,
)
from tcopt.support.columns import ceil_div, least, most, where

VIRTUAL, THREADS, PLACES, ELEMENTS = 1, 2, 3, 4
"""Levels of a spatial variable inside of the blocks."""

PIECES, TERMS = 1, 2
"""Levels of a variable of a sum inside of its parts."""

FROM_MEMORY, SHARED, MADE_SHARED = 0, 1, 2
"""Where a block reads an operand: as it is, from a copy that its threads share, or from there
where another block computes it on the spot."""

MOST_VIRTUAL = 8
"""Virtual threads of a variable at most."""

MOST_OWN = 16
"""Places or elements of a variable at most."""

MOST_CODE = 1024
"""Runs of a block's body that are written out at most."""

MOST_GUARDED = 16
"""Runs of the body that are written out each with its own condition, where tiles go beyond the end:
compilers for devices take very long for many of them."""

ALIGNED = 64
"""Bytes at multiples of which buffers in shared memory begin."""

NO_VECTOR = -1
"""No variable that vectors lie along."""

MEMORY_LOAD = 4.0
"""Multiply-adds that take as long as a load from memory, roughly; one from shared memory takes as
long as one of them."""


class GpuGenericSpace(Space):
    """Tiles of a block, and how its operands come to it.

    Args:
        pattern: of the block that counts.
        makers: blocks that compute operands for it alone.
    """

    def __init__(
        self, sch: Schedule, pattern: BlockPattern, makers: Sequence[Block], facts: GpuFacts
    ):
        self.pattern, self.facts = pattern, facts
        block = sch.get_block(pattern.block.block_name.data)
        moving = loop_variables(sch, block)
        self.spatial = [v for v in moving if v in pattern.spatial]
        self.reduce = [v for v in moving if v in pattern.reduce]
        self.bits = element_bits(pattern.block)
        self.lanes = facts.lanes(self.bits)
        can_share = bool(self.reduce) and facts.shared > 0
        self.reads = reads_of(sch, pattern, makers) if can_share else []
        super().__init__(self._make_knobs())

    def _make_knobs(self) -> list[Knob]:
        extents, knobs = self.pattern.extents, list[Knob]()
        for v in self.spatial:
            extent = extents[v]
            own = sizes_up_to(extent, largest=MOST_OWN)
            knobs += [
                Knob(f"s{v}.{VIRTUAL}", sizes_up_to(extent, largest=MOST_VIRTUAL)),
                Knob(f"s{v}.{THREADS}", sizes_up_to(extent, largest=self.facts.max_threads)),
                Knob(f"s{v}.{PLACES}", own),
                Knob(f"s{v}.{ELEMENTS}", own),
            ]
        for v in self.reduce:
            sizes = sizes_up_to(extents[v])
            knobs += [Knob(f"r{v}.{PIECES}", sizes), Knob(f"r{v}.{TERMS}", sizes)]
        names = tuple(f"variable {v}" for v in self.spatial)
        along = [v for v in self.spatial if self._has_vectors(v)]
        knobs += [
            Knob("vector", (NO_VECTOR, *along), ("none", *(f"variable {v}" for v in along))),
            Knob("neighbours", tuple(self.spatial), names),
        ]
        if self.reduce:
            knobs.append(Knob("unroll", (0, 1, 2), ("no sum", "terms", "pieces")))
        for read in self.reads:
            words = ("memory", "shared copy", "made where shared")
            count = 2 if read.maker is None else 3
            knobs.append(Knob(read.knob, tuple(range(count)), words[:count]))
        if self.reads:
            copied = {1, *(self.facts.words >> n for n in range(self.facts.words.bit_length()))}
            knobs.append(Knob("copied", tuple(sorted(copied - {0}))))
            knobs.append(Knob("ahead", (0, 1), ("no", "yes")))
        return knobs

    def _has_vectors(self, variable: int) -> bool:
        """Whether all that a variable moves it moves to neighbours, which are there."""
        accesses = (self.pattern.store, *self.pattern.terms)
        return all(
            not each.uses(variable)
            or (each.is_unit(variable) and getattr(each.op, "default", None) is None)
            for each in accesses
        )

    # Sizes.

    def size_of(self, k: Point, variable: int, level: int) -> Column:
        """Iterations of an inner loop of a spatial variable."""
        return getattr(k, f"s{variable}.{level}")

    def part(self, k: Point, variable: int, level: int = VIRTUAL) -> Column:
        """How far a spatial variable goes inside of the loops of a level and those below."""
        found: Column = 1
        for inner in range(level, ELEMENTS + 1):
            found = found * self.size_of(k, variable, inner)
        return found

    def terms_of(self, k: Point, variable: int) -> Column:
        """How far a variable of a sum goes in one part of it."""
        return getattr(k, f"r{variable}.{PIECES}") * getattr(k, f"r{variable}.{TERMS}")

    def order(self, first: int) -> list[int]:
        """Variables in the order of their threads, that of neighbours last."""
        return [*(v for v in self.spatial if v != first), first]

    def threads(self, k: Point) -> Column:
        """Of a block."""
        found: Column = 1
        for v in self.spatial:
            found = found * self.size_of(k, v, THREADS)
        return found

    def blocks(self, k: Point) -> Column:
        """Of the launch."""
        found: Column = 1
        for v in self.spatial:
            found = found * ceil_div(self.pattern.extents[v], self.part(k, v))
        return found

    def results(self, k: Point) -> Column:
        """Numbers that a thread computes."""
        found: Column = 1
        for v in self.spatial:
            found = found * self.part(k, v) // self.size_of(k, v, THREADS)
        return found

    def _block_sizes(self, k: Point) -> dict[int, Column]:
        """How far a block goes along variables in a part of the sum."""
        sizes: dict[int, Column] = {v: self.part(k, v) for v in self.spatial}
        return sizes | {v: self.terms_of(k, v) for v in self.reduce}

    def _vector(self, k: Point) -> Column:
        """Lanes of a vector, one where there is none."""
        found: Column = 1
        for v in self.spatial:
            found = where(k.vector == v, self.size_of(k, v, ELEMENTS), found)
        return found

    # What can be carried out.

    def valid(self, k: Point) -> Column:
        extents, facts = self.pattern.extents, self.facts
        fine: Column = self.threads(k) <= facts.max_threads
        uneven: Column = 0
        for v in self.spatial:
            part = self.part(k, v)
            fine = fine & (part <= extents[v])
            uneven = uneven + extents[v] % part
        for v in self.reduce:
            fine = fine & (self.terms_of(k, v) <= extents[v])
        vector = self._vector(k)
        fine = fine & (vector & (vector - 1) == 0) & (vector <= self.lanes)
        results = self.results(k)
        fine = fine & ((uneven == 0) | (results // vector <= MOST_GUARDED))
        words = ceil_div(results * self.bits, WORD_BITS)
        fine = fine & (words <= facts.accumulators) & (self._code(k, results) <= MOST_CODE)
        if not self.reads:
            return fine
        shared: Column = 0
        for read in self.reads:
            shared = shared + getattr(k, read.knob)
            # A thread copies whole vectors of rows that blocks divide evenly.
            row = read.reach(self._block_sizes(k))[-1]
            whole = buffer_shape(read.terms[0].buffer)[-1]
            even = (row % k.copied == 0) & (whole % most(row, 1) == 0)
            fine = fine & ((getattr(k, read.knob) == FROM_MEMORY) | (k.copied == 1) | even)
        # What says how copies are made says nothing where there are none.
        fine = fine & ((shared > 0) | ((k.copied == 1) & (k.ahead == 0)))
        fine = fine & ((k.ahead == 0) | (self._parts(k) > 1))
        return fine & (self.shared_bytes(k) <= facts.shared)

    def _parts(self, k: Point) -> Column:
        """Of a sum, one after the other."""
        found: Column = 1
        for v in self.reduce:
            found = found * ceil_div(self.pattern.extents[v], self.terms_of(k, v))
        return found

    def _code(self, k: Point, results: Column) -> Column:
        """Runs of the body that are written out."""
        total = results // self._vector(k)
        for v in self.reduce:
            total = total * where(k.unroll >= 1, getattr(k, f"r{v}.{TERMS}"), 1)
            total = total * where(k.unroll >= 2, getattr(k, f"r{v}.{PIECES}"), 1)
        return total

    def shared_bytes(self, k: Point) -> Column:
        """What a block keeps in shared memory, at most."""
        sizes, total = self._block_sizes(k), 0
        for read in self.reads:
            bytes_ = read.places(sizes, self.threads(k) * k.copied) * read.element_bytes
            aligned = ceil_div(bytes_, ALIGNED) * ALIGNED
            total = total + where(getattr(k, read.knob) != FROM_MEMORY, aligned, 0)
        return total * (1 + (k.ahead if self.reads else 0))

    # What it takes.

    def estimate(self, k: Point) -> Column:
        """Multiply-adds that take as long, of the busiest core."""
        facts, threads, results = self.facts, self.threads(k), self.results(k)
        padded: Column = 1
        for v in self.reduce:
            terms = self.terms_of(k, v)
            padded = padded * ceil_div(self.pattern.extents[v], terms) * terms
        per_term = results + self._loads(k)
        idle = ceil_div(threads, facts.warp) * facts.warp
        shared = self.shared_bytes(k) if self.reads else 0
        blocks = self.blocks(k)
        at_once = facts.resident(blocks, idle, results, shared)
        fetched = self._fetched(k)
        waits = WAIT / at_once / (1 + (k.ahead if self.reads else 0))
        waits = where(fetched > 0, waits, 0.0)
        work = idle * (padded * per_term + self._parts(k) * waits)
        work = work + self._parts(k) * FETCH * fetched / WORD
        exposed = 1 + 2 * facts.warp / (idle * at_once)
        return facts.rounds(blocks) * work * exposed

    def _loads(self, k: Point) -> Column:
        """What a thread's loads for a term take, in multiply-adds."""
        own = {v: self.part(k, v) // self.size_of(k, v, THREADS) for v in self.spatial}
        shared = {term: read for read in self.reads for term in read.terms}
        total: Column = 0.0
        for term in self.pattern.terms:
            count: Column = 1
            for v, size in own.items():
                if term.uses(v):
                    along = self.size_of(k, v, ELEMENTS)
                    lanes = where(k.vector == v, along, 1) if term.is_unit(v) else 1
                    count = count * size / lanes
            cost: Column = MEMORY_LOAD * self._scatter(k, term)
            if term in shared:
                cost = where(getattr(k, shared[term].knob) != FROM_MEMORY, 1.0, cost)
            total = total + count * cost
        return total

    def _scatter(self, k: Point, term: StridedAccess) -> Column:
        """How many times as long a load takes whose neighbours are other threads'."""
        found: Column = 1.0
        for v in self.spatial:
            if term.uses(v) and not term.is_unit(v):
                apart = least(self.size_of(k, v, THREADS), WORD)
                found = where(k.neighbours == v, apart, found)
        return found

    def _fetched(self, k: Point) -> Column:
        """Bytes that a block copies for a part of its sums, by vectors."""
        sizes, total = self._block_sizes(k), 0.0
        for read in self.reads:
            moved = read.elements(sizes) * read.element_bytes / (0.5 + 0.5 * k.copied)
            total = total + where(getattr(k, read.knob) != FROM_MEMORY, moved, 0.0)
        return total

    def default(self) -> dict[str, int]:
        """A plain choice: threads along what is contiguous, and no other tiles."""
        choice = {knob.name: knob.values[0] for knob in self.knobs}
        axis = next(
            (v for v in reversed(self.spatial) if self.pattern.store.is_unit(v)), self.spatial[-1]
        )
        name = f"s{axis}.{THREADS}"
        sizes = next(knob.values for knob in self.knobs if knob.name == name)
        fitting = [n for n in sizes if n <= self.facts.block_threads(self.pattern.work)]
        return choice | {"neighbours": axis, name: max(fitting)}

    # For who searches.

    @property
    def untold(self) -> tuple[str, ...]:
        """Where operands are read, and how they are copied."""
        reads = tuple(read.knob for read in self.reads)
        return (*reads, "copied", "ahead") if reads else ()

    def nest(self, k: Point) -> Sequence[LoopLevel]:
        extents, unrolled = self.pattern.extents, int(NestKind.UNROLLED)
        levels = [
            LoopLevel(v, ceil_div(extents[v], self.part(k, v)), NestKind.BLOCK)
            for v in self.spatial
        ]
        levels += [LoopLevel(v, self.size_of(k, v, VIRTUAL), unrolled) for v in self.spatial]
        levels += self._thread_levels(k)
        for v in self.reduce:
            levels.append(LoopLevel(v, ceil_div(extents[v], self.terms_of(k, v))))
        kinds = {
            level: where(k.unroll >= (1 if level == TERMS else 2), unrolled, int(NestKind.SERIAL))
            if self.reduce
            else unrolled
            for level in (PIECES, TERMS)
        }
        levels += [LoopLevel(v, getattr(k, f"r{v}.{PIECES}"), kinds[PIECES]) for v in self.reduce]
        levels += [LoopLevel(v, self.size_of(k, v, PLACES), unrolled) for v in self.spatial]
        levels += [LoopLevel(v, getattr(k, f"r{v}.{TERMS}"), kinds[TERMS]) for v in self.reduce]
        for v in self.spatial:
            levels.append(
                LoopLevel(v, where(k.vector == v, 1, self.size_of(k, v, ELEMENTS)), unrolled)
            )
        along = where(k.vector == NO_VECTOR, self.spatial[-1], k.vector)
        return [*levels, LoopLevel(along, self._vector(k), NestKind.VECTOR)]

    def _thread_levels(self, k: Point) -> list[LoopLevel]:
        """Loops over threads, those of neighbours last."""
        levels: list[LoopLevel] = []
        for place in range(len(self.spatial)):
            variable: Column = self.spatial[place]
            extent: Column = 1
            for first in self.spatial:
                v = self.order(first)[place]
                here = k.neighbours == first
                variable = where(here, v, variable)
                extent = where(here, self.size_of(k, v, THREADS), extent)
            levels.append(LoopLevel(variable, extent, NestKind.THREAD))
        return levels

    def tile_text(self, choice: Choice) -> str:
        """A choice's tile in words."""
        k = Point(dict(choice))
        sizes = " x ".join(str(self.part(k, v)) for v in self.spatial)
        return f"tile of {sizes} a block of {self.threads(k)} threads"

    @cached_property
    def _operands(self) -> Sequence[Operand]:
        return operands_of(self.pattern)

    def operands(self) -> Sequence[Operand]:
        return self._operands
