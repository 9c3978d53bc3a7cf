"""Space of `gpu-generic`: tiles of blocks, threads and registers, and shared operands.

Each spatial variable of the main block is split into five loops, each reduce variable into three.
The levels are S S S R R S R S, outermost first, as in Ansor's sketches for GPUs (Zheng et al.,
2020): blocks, virtual threads, threads, parts of a sum, pieces of a part, tiles of a thread, terms,
elements.
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
from tcopt.schedules.rules.gpu.generic_reads import reads_of
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
from tcopt.support.arithmetic.columns import ceil_div, least, most, where
from tcopt.support.machines.thread_blocks import WORD, WORD_BITS, LaunchWork, ThreadBlocks

VIRTUAL, THREADS, PLACES, ELEMENTS = 1, 2, 3, 4
"""Levels of a spatial variable inside of the block level."""

PIECES, TERMS = 1, 2
"""Levels of a reduce variable inside of the loop over parts."""

FROM_MEMORY, SHARED, MADE_SHARED = 0, 1, 2
"""Where a block reads an operand from: from memory, from a shared copy, or from shared memory into
which its producer computes it."""

MOST_VIRTUAL = 8
"""Maximum number of virtual threads along a variable."""

MOST_OWN = 16
"""Maximum size of the two innermost levels of a variable."""

MOST_CODE = 1024
"""Maximum number of unrolled copies of a block's body."""

MOST_GUARDED = 16
"""Maximum number of unrolled copies of the body with separate conditions, if tiles exceed the
bounds: device compilers take very long for many of them."""

ALIGNED = 64
"""Alignment of buffers in shared memory, in bytes."""

NO_VECTOR = -1
"""Value of the knob `vector` for no vectorised variable."""


class GpuGenericSpace(Space):
    """Tiles of a block, and where its operands are read from.

    Args:
        pattern: the main block.
        makers: producers whose only consumer is the main block.
    """

    def __init__(
        self, sch: Schedule, pattern: BlockPattern, makers: Sequence[Block], facts: ThreadBlocks
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
        """Whether all accesses along a variable are contiguous and in bounds, or constant."""
        accesses = (self.pattern.store, *self.pattern.terms)
        return all(
            not each.uses(variable)
            or (each.is_unit(variable) and getattr(each.op, "default", None) is None)
            for each in accesses
        )

    # Sizes.

    def size_of(self, k: Point, variable: int, level: int) -> Column:
        """Return the trip count of an inner loop of a spatial variable."""
        return getattr(k, f"s{variable}.{level}")

    def part(self, k: Point, variable: int, level: int = VIRTUAL) -> Column:
        """Return the range of a spatial variable inside of the given level, that level included."""
        found: Column = 1
        for inner in range(level, ELEMENTS + 1):
            found = found * self.size_of(k, variable, inner)
        return found

    def terms_of(self, k: Point, variable: int) -> Column:
        """Return the range of a reduce variable in one part of the sum."""
        return getattr(k, f"r{variable}.{PIECES}") * getattr(k, f"r{variable}.{TERMS}")

    def order(self, first: int) -> list[int]:
        """Return the variables in the order of their thread loops; `first` moves adjacent
        threads."""
        return [*(v for v in self.spatial if v != first), first]

    def threads(self, k: Point) -> Column:
        """Return the number of threads of a block."""
        found: Column = 1
        for v in self.spatial:
            found = found * self.size_of(k, v, THREADS)
        return found

    def blocks(self, k: Point) -> Column:
        """Return the number of blocks of the launch."""
        found: Column = 1
        for v in self.spatial:
            found = found * ceil_div(self.pattern.extents[v], self.part(k, v))
        return found

    def results(self, k: Point) -> Column:
        """Return the number of elements that a thread computes."""
        found: Column = 1
        for v in self.spatial:
            found = found * self.part(k, v) // self.size_of(k, v, THREADS)
        return found

    def _block_sizes(self, k: Point) -> dict[int, Column]:
        """Return the range of each variable for a block in a part of the sum."""
        sizes: dict[int, Column] = {v: self.part(k, v) for v in self.spatial}
        return sizes | {v: self.terms_of(k, v) for v in self.reduce}

    def _vector(self, k: Point) -> Column:
        """Return the lanes of a vector; 1 if nothing is vectorised."""
        found: Column = 1
        for v in self.spatial:
            found = where(k.vector == v, self.size_of(k, v, ELEMENTS), found)
        return found

    # Legality.

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
        # Without copies, the knobs for copies must have their first values.
        fine = fine & ((shared > 0) | ((k.copied == 1) & (k.ahead == 0)))
        fine = fine & ((k.ahead == 0) | (self._parts(k) > 1))
        return fine & (self.shared_bytes(k) <= facts.shared)

    def _parts(self, k: Point) -> Column:
        """Return the number of parts of a sum, which are processed one after the other."""
        found: Column = 1
        for v in self.reduce:
            found = found * ceil_div(self.pattern.extents[v], self.terms_of(k, v))
        return found

    def _code(self, k: Point, results: Column) -> Column:
        """Return the number of unrolled copies of the body."""
        total = results // self._vector(k)
        for v in self.reduce:
            total = total * where(k.unroll >= 1, getattr(k, f"r{v}.{TERMS}"), 1)
            total = total * where(k.unroll >= 2, getattr(k, f"r{v}.{PIECES}"), 1)
        return total

    def shared_bytes(self, k: Point) -> Column:
        """Return an upper bound on a block's shared memory in bytes."""
        sizes, total = self._block_sizes(k), 0
        for read in self.reads:
            bytes_ = read.places(sizes, self.threads(k) * k.copied) * read.element_bytes
            aligned = ceil_div(bytes_, ALIGNED) * ALIGNED
            total = total + where(getattr(k, read.knob) != FROM_MEMORY, aligned, 0)
        return total * (1 + (k.ahead if self.reads else 0))

    # Cost.

    def estimate(self, k: Point) -> Column:
        """Estimate the cycles of the launch."""
        results, parts, fetched = self.results(k), self._parts(k), self._fetched(k)
        padded: Column = 1
        for v in self.reduce:
            terms = self.terms_of(k, v)
            padded = padded * ceil_div(self.pattern.extents[v], terms) * terms
        near, far = self._loads(k)
        waits = 1 / (1 + (k.ahead if self.reads else 0))
        work = LaunchWork(
            blocks=self.blocks(k),
            threads=self.threads(k),
            operations=padded * (results + near),
            loads=padded * far,
            copied=parts * fetched,
            barriers=parts * where(fetched > 0, waits, 0.0),
            values=results,
            shared=self.shared_bytes(k) if self.reads else 0,
        )
        return self.facts.launch(work).total

    def _loads(self, k: Point) -> tuple[Column, Column]:
        """Return a thread's loads for one term, from shared memory and from memory."""
        own = {v: self.part(k, v) // self.size_of(k, v, THREADS) for v in self.spatial}
        shared = {term: read for read in self.reads for term in read.terms}
        near: Column = 0.0
        far: Column = 0.0
        for term in self.pattern.terms:
            count: Column = 1
            for v, size in own.items():
                if term.uses(v):
                    along = self.size_of(k, v, ELEMENTS)
                    lanes = where(k.vector == v, along, 1) if term.is_unit(v) else 1
                    count = count * size / lanes
            is_near = getattr(k, shared[term].knob) != FROM_MEMORY if term in shared else False
            near = near + where(is_near, count, 0.0)
            far = far + where(is_near, 0.0, count * self._scatter(k, term))
        return near, far

    def _scatter(self, k: Point, term: StridedAccess) -> Column:
        """Return the slowdown of a load if adjacent threads access non-contiguous elements."""
        found: Column = 1.0
        for v in self.spatial:
            if term.uses(v) and not term.is_unit(v):
                apart = least(self.size_of(k, v, THREADS), WORD)
                found = where(k.neighbours == v, apart, found)
        return found

    def _fetched(self, k: Point) -> Column:
        """Return the bytes that a block copies for a part of its sums, weighted by vector width."""
        sizes, total = self._block_sizes(k), 0.0
        for read in self.reads:
            moved = read.elements(sizes) * read.element_bytes / (0.5 + 0.5 * k.copied)
            total = total + where(getattr(k, read.knob) != FROM_MEMORY, moved, 0.0)
        return total

    def default(self) -> dict[str, int]:
        """Return a simple choice: threads along the contiguous variable, and no other tiles."""
        choice = {knob.name: knob.values[0] for knob in self.knobs}
        axis = next(
            (v for v in reversed(self.spatial) if self.pattern.store.is_unit(v)), self.spatial[-1]
        )
        name = f"s{axis}.{THREADS}"
        sizes = next(knob.values for knob in self.knobs if knob.name == name)
        fitting = [n for n in sizes if n <= self.facts.block_threads(self.pattern.work)]
        return choice | {"neighbours": axis, name: max(fitting)}

    # For schedule search.

    @property
    def untold(self) -> tuple[str, ...]:
        """Knobs for the memory from which operands are read, and for copies."""
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
        """Return the thread loops, that of adjacent threads last."""
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
        """Return a description of a choice's tile."""
        k = Point(dict(choice))
        sizes = " x ".join(str(self.part(k, v)) for v in self.spatial)
        return f"tile of {sizes} a block of {self.threads(k)} threads"

    @cached_property
    def _operands(self) -> Sequence[Operand]:
        return operands_of(self.pattern)

    def operands(self) -> Sequence[Operand]:
        return self._operands
